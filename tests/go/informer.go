package main

import (
	"context"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const namespace = "default"

// noteLabel is the one thing of an object that is said.
const noteLabel = "note"

var machineDeployments = schema.GroupVersionResource{
	Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machinedeployments",
}

// informTyped follows ConfigMaps, asking for protobuf as generated clients do.
func informTyped(ctx context.Context, config *rest.Config) error {
	config.ContentType = runtime.ContentTypeProtobuf
	config.Wrap(saying)
	client, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return err
	}
	maps := cache.NewListWatchFromClient(client.RESTClient(), "configmaps", namespace, fields.Everything())
	return inform(ctx, maps, &corev1.ConfigMap{})
}

// informDynamic follows a custom resource without knowing its type.
func informDynamic(ctx context.Context, config *rest.Config) error {
	config.Wrap(saying)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	resource := client.Resource(machineDeployments).Namespace(namespace)
	lister := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, options)
		},
	}
	return inform(ctx, cache.ToListWatcherWithWatchListSemantics(lister, client), &unstructured.Unstructured{})
}

func inform(ctx context.Context, lister cache.ListerWatcher, kind runtime.Object) error {
	informer := cache.NewSharedIndexInformer(lister, kind, 0, cache.Indexers{})
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(object any, _ bool) { sayObject("add", object) },
		UpdateFunc: func(_, object any) { sayObject("update", object) },
		DeleteFunc: func(object any) { sayObject("delete", object) },
	})
	if err != nil {
		return err
	}
	go informer.RunWithContext(ctx)
	if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		say("synced")
	}
	<-ctx.Done()
	return nil
}

func sayObject(word string, object any) {
	if last, lost := object.(cache.DeletedFinalStateUnknown); lost {
		object = last.Obj
	}
	of, err := meta.Accessor(object)
	if err != nil {
		say("%s: %v", word, err)
		return
	}
	say("%s %s %s", word, of.GetName(), of.GetLabels()[noteLabel])
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	return t(request)
}

// saying tells how each list or watch is asked for.
func saying(next http.RoundTripper) http.RoundTripper {
	return transport(func(request *http.Request) (*http.Response, error) {
		query := request.URL.Query()
		switch {
		case query.Get("sendInitialEvents") == "true":
			say("asks watch-list")
		case query.Get("watch") == "true":
			say("asks watch")
		default:
			say("asks list")
		}
		return next.RoundTrip(request)
	})
}
