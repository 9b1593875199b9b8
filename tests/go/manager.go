package main

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	manager   = "capstan-clients"
	finalizer = "clients.example.io/seen"
)

// manage runs a controller of MachineDeployments under a leader's Lease.
func manage(ctx context.Context, config *rest.Config) error {
	ctrl.SetLogger(logr.Discard())
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		LeaderElection:                true,
		LeaderElectionID:              manager,
		LeaderElectionNamespace:       namespace,
		LeaderElectionReleaseOnCancel: true,
		Metrics:                       server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	reconciler := &reconciler{client: mgr.GetClient(), recorder: mgr.GetEventRecorder(manager)}
	err = ctrl.NewControllerManagedBy(mgr).
		Named(manager).
		For(machineDeployment()).
		Owns(&corev1.ConfigMap{}, builder.OnlyMetadata).
		Complete(reconciler)
	if err != nil {
		return err
	}
	go func() {
		select {
		case <-mgr.Elected():
			say("leader")
		case <-ctx.Done():
		}
	}()
	say("started")
	return mgr.Start(ctx)
}

func machineDeployment() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{
		Group: machineDeployments.Group, Version: machineDeployments.Version, Kind: "MachineDeployment",
	})
	return object
}

type reconciler struct {
	client   client.Client
	recorder events.EventRecorder
}

// Reconcile keeps a finalizer on the object, a ConfigMap beside it with the note of its label, and a
// count in its status; it says what it found.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := machineDeployment()
	if err := r.client.Get(ctx, request.NamespacedName, object); err != nil {
		if client.IgnoreNotFound(err) == nil {
			say("gone %s", request.Name)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := object.DeepCopy()
	lock := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if !object.GetDeletionTimestamp().IsZero() {
		say("deleting %s", request.Name)
		controllerutil.RemoveFinalizer(object, finalizer)
		return ctrl.Result{}, client.IgnoreNotFound(r.client.Patch(ctx, object, lock))
	}
	if controllerutil.AddFinalizer(object, finalizer) {
		if err := r.client.Patch(ctx, object, lock); err != nil {
			return ctrl.Result{}, err
		}
		r.recorder.Eventf(object, nil, corev1.EventTypeNormal, "Seen", "See", "seen by %s", manager)
	}
	note := object.GetLabels()[noteLabel]
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}}
	result, err := controllerutil.CreateOrUpdate(ctx, r.client, owned, func() error {
		owned.Data = map[string]string{"note": note}
		return controllerutil.SetControllerReference(object, owned, r.client.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("the ConfigMap: %w", err)
	}
	if err := r.report(ctx, object); err != nil {
		return ctrl.Result{}, fmt.Errorf("the status: %w", err)
	}
	say("reconciled %s %s %s", request.Name, note, result)
	return ctrl.Result{}, nil
}

func (r *reconciler) report(ctx context.Context, object *unstructured.Unstructured) error {
	before := object.DeepCopy()
	if err := unstructured.SetNestedField(object.Object, object.GetGeneration(), "status", "observedGeneration"); err != nil {
		return err
	}
	return r.client.Status().Patch(ctx, object, client.MergeFrom(before))
}
