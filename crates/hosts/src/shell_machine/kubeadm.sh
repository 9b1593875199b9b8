# Stands in for kubeadm: makes and removes the files by which its work is known, and notes each call.
echo "$1" >>"$MACHINE/kubeadm"
folder=$CAPSTAN_ROOT/etc/kubernetes
case $1 in
init | join)
  [ -e "$MACHINE/kubeadm-fails" ] && { cat "$MACHINE/kubeadm-fails"; exit 1; }
  mkdir -p "$folder/manifests" && chmod 0755 "$folder" "$folder/manifests"
  echo kubelet >"$folder/kubelet.conf"
  cat "$folder/kubelet.conf" >/dev/null
  echo api >"$folder/manifests/kube-apiserver.yaml"
  date >/dev/null
  ;;
reset) rm -rf "$folder/manifests" "$folder/kubelet.conf" ;;
esac
