package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/tools/record"
	toolswatch "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/client-go/util/retry"
)

func watchChecks() []check {
	return []check{
		{"a list comes as a watch, and a bookmark ends it", watchList},
		{"a watch goes on where another one ended", watchResumes},
		{"a RetryWatcher starts by itself again", retryWatcher},
		{"informers resync without anything having changed", informersResync},
		{"a pager reads pages of one revision while others write", pages},
		{"one of two leads, and the other one after it", leaders},
		{"event recorders count what repeats", recorders},
		{"typed apply: owners, conflicts and force", typedApply},
		{"a certificate is requested, approved, issued and used", certificate},
		{"tokens of ServiceAccounts, reviews and impersonation", tokens},
		{"errors are of the kinds that programs ask for", errorKinds},
		{"a Deployment is scaled by its sub-resource", scale},
	}
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
}

func watchList(ctx context.Context, w *world) error {
	maps := w.kube.CoreV1().ConfigMaps(namespace)
	for _, name := range []string{"list-a", "list-b"} {
		it := configMap(name)
		it.Labels = map[string]string{mark: "watch-list"}
		if _, err := maps.Create(ctx, it, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for _, client := range []corev1client.ConfigMapInterface{maps, w.kubeJSON.CoreV1().ConfigMaps(namespace)} {
		watching, err := client.Watch(ctx, metav1.ListOptions{
			LabelSelector: mark + "=watch-list", SendInitialEvents: pointer(true), AllowWatchBookmarks: true,
			ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		})
		if err != nil {
			return err
		}
		var names []string
		for ended := false; !ended; {
			event, err := next(ctx, watching)
			if err != nil {
				return err
			}
			it := event.Object.(*corev1.ConfigMap)
			switch event.Type {
			case watch.Added:
				names = append(names, it.Name)
			case watch.Bookmark:
				if it.Annotations[metav1.InitialEventsAnnotationKey] != "true" || it.ResourceVersion == "" {
					return fmt.Errorf("a bookmark says %v at %q", it.Annotations, it.ResourceVersion)
				}
				ended = true
			default:
				return fmt.Errorf("an event of the type %s", event.Type)
			}
		}
		watching.Stop()
		if len(names) != 2 {
			return fmt.Errorf("the list has %v", names)
		}
	}
	return nil
}

func next(ctx context.Context, watching watch.Interface) (watch.Event, error) {
	select {
	case event, open := <-watching.ResultChan():
		if !open {
			return event, errors.New("the watch ended")
		}
		if event.Type == watch.Error {
			return event, apierrors.FromObject(event.Object)
		}
		return event, nil
	case <-ctx.Done():
		return watch.Event{}, errors.New("the watch told nothing")
	}
}

func watchResumes(ctx context.Context, w *world) error {
	maps := w.kube.CoreV1().ConfigMaps(namespace)
	first, err := maps.Create(ctx, configMap("resume"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	only := metav1.ListOptions{FieldSelector: "metadata.name=resume", ResourceVersion: first.ResourceVersion}
	last := first.ResourceVersion
	// Each watch is told one change, and the next one begins after it.
	for i := range 3 {
		first.Data = map[string]string{"i": fmt.Sprint(i)}
		first.ResourceVersion = ""
		if _, err := maps.Update(ctx, first, metav1.UpdateOptions{}); err != nil {
			return err
		}
		only.ResourceVersion = last
		watching, err := maps.Watch(ctx, only)
		if err != nil {
			return err
		}
		event, err := next(ctx, watching)
		watching.Stop()
		if err != nil {
			return err
		}
		it := event.Object.(*corev1.ConfigMap)
		if event.Type != watch.Modified || it.Data["i"] != fmt.Sprint(i) {
			return fmt.Errorf("change %d was told as %s %v", i, event.Type, it.Data)
		}
		last = it.ResourceVersion
	}
	return nil
}

func retryWatcher(ctx context.Context, w *world) error {
	maps := w.kube.CoreV1().ConfigMaps(namespace)
	it, err := maps.Create(ctx, configMap("retry"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	var started atomic.Int32
	watcher, err := toolswatch.NewRetryWatcherWithContext(ctx, it.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			started.Add(1)
			options.FieldSelector = "metadata.name=retry"
			options.TimeoutSeconds = pointer(int64(1)) // the server ends it
			return maps.Watch(ctx, options)
		},
	})
	if err != nil {
		return err
	}
	defer watcher.Stop()
	if err := until(ctx, "the watcher starts again", func() (bool, error) { return started.Load() > 1, nil }); err != nil {
		return err
	}
	it.Data = map[string]string{"a": "b"}
	if _, err := maps.Update(ctx, it, metav1.UpdateOptions{}); err != nil {
		return err
	}
	for {
		event, err := next(ctx, watcher)
		if err != nil {
			return err
		}
		if changed, ok := event.Object.(*corev1.ConfigMap); ok && event.Type == watch.Modified && changed.Data["a"] == "b" {
			return nil
		}
	}
}

func informersResync(ctx context.Context, w *world) error {
	factory := informers.NewSharedInformerFactoryWithOptions(w.kube, 300*time.Millisecond, informers.WithNamespace(namespace))
	var resyncs, adds atomic.Int32
	informer := factory.Core().V1().Secrets().Informer()
	leases := factory.Coordination().V1().Leases().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { adds.Add(1) },
		UpdateFunc: func(before, after any) {
			if before.(*corev1.Secret).ResourceVersion == after.(*corev1.Secret).ResourceVersion {
				resyncs.Add(1)
			}
		},
	}); err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: named("resync"), Data: map[string][]byte{"a": {1}}}
	if _, err := w.kube.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return err
	}
	stop := make(chan struct{})
	factory.Start(stop)
	defer func() { close(stop); factory.Shutdown() }()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced, leases.HasSynced) {
		return errors.New("no first list")
	}
	if err := until(ctx, "two resyncs", func() (bool, error) { return resyncs.Load() > 1, nil }); err != nil {
		return err
	}
	it, err := factory.Core().V1().Secrets().Lister().Secrets(namespace).Get("resync")
	if err != nil || it.Data["a"][0] != 1 || adds.Load() < 1 {
		return fmt.Errorf("the lister has %v after %d adds: %w", it, adds.Load(), err)
	}
	return nil
}

func pages(ctx context.Context, w *world) error {
	maps := w.kube.CoreV1().ConfigMaps(namespace)
	const total = 35
	for i := range total {
		it := configMap(fmt.Sprintf("page-%02d", i))
		it.Labels = map[string]string{mark: "pages"}
		if _, err := maps.Create(ctx, it, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	reader := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		list, err := maps.List(ctx, options)
		if err == nil && len(seen) == 10 {
			// Between two pages: what was made later does not belong to the list.
			late := configMap("page-99")
			late.Labels = map[string]string{mark: "pages"}
			_, err = maps.Create(ctx, late, metav1.CreateOptions{})
		}
		return list, err
	})
	reader.PageSize = 10
	reader.PageBufferSize = 0
	if err := reader.EachListItem(ctx, metav1.ListOptions{LabelSelector: mark + "=pages"}, func(it runtime.Object) error {
		seen[it.(*corev1.ConfigMap).Name] = true
		return nil
	}); err != nil {
		return err
	}
	if len(seen) != total || seen["page-99"] {
		return fmt.Errorf("%d of %d, the late one %v", len(seen), total, seen["page-99"])
	}
	return maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: mark + "=pages"})
}

func leaders(ctx context.Context, w *world) error {
	leading := make(chan string, 4)
	run := func(identity string) (context.CancelFunc, error) {
		lock, err := resourcelock.New(resourcelock.LeasesResourceLock, namespace, "leader", w.kube.CoreV1(), w.kube.CoordinationV1(),
			resourcelock.ResourceLockConfig{Identity: identity})
		if err != nil {
			return nil, err
		}
		ctx, stop := context.WithCancel(ctx)
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: 5 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 200 * time.Millisecond,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { leading <- identity }, OnStoppedLeading: func() {},
			},
		})
		if err == nil {
			go elector.Run(ctx)
		}
		return stop, err
	}
	leads := func(who string) error {
		select {
		case it := <-leading:
			if it != who {
				return fmt.Errorf("%s leads, not %s", it, who)
			}
			return nil
		case <-ctx.Done():
			return fmt.Errorf("%s never leads", who)
		}
	}
	stopFirst, err := run("first")
	if err != nil {
		return err
	}
	defer stopFirst()
	if err := leads("first"); err != nil {
		return err
	}
	stopSecond, err := run("second")
	if err != nil {
		return err
	}
	defer stopSecond()
	stopFirst()
	if err := leads("second"); err != nil {
		return err
	}
	lease, err := w.kube.CoordinationV1().Leases(namespace).Get(ctx, "leader", metav1.GetOptions{})
	if err != nil || *lease.Spec.HolderIdentity != "second" || *lease.Spec.LeaseTransitions != 1 {
		return fmt.Errorf("%+v: %w", lease.Spec, err)
	}
	return nil
}

func recorders(ctx context.Context, w *world) error {
	about, err := w.kube.CoreV1().ConfigMaps(namespace).Create(ctx, configMap("events"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	old := record.NewBroadcaster(record.WithContext(ctx))
	old.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: w.kube.CoreV1().Events("")})
	recorder := old.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "go-clients"})
	recent := events.NewBroadcaster(&events.EventSinkImpl{Interface: w.kube.EventsV1()})
	if err := recent.StartRecordingToSinkWithContext(ctx); err != nil {
		return err
	}
	newRecorder := recent.NewRecorder(scheme.Scheme, "example.com/go-clients")
	defer old.Shutdown()
	defer recent.Shutdown()
	newRecorder.Eventf(about, nil, corev1.EventTypeNormal, "Series", "Repeat", "the same again")
	// A series is a patch of the first event, and the library tries only every ten seconds.
	if err := until(ctx, "the first of a series", func() (bool, error) {
		list, err := w.kube.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=Series"})
		return err == nil && len(list.Items) == 1, err
	}); err != nil {
		return err
	}
	for range 3 {
		recorder.Event(about, corev1.EventTypeNormal, "Repeated", "the same again")
		newRecorder.Eventf(about, nil, corev1.EventTypeNormal, "Series", "Repeat", "the same again")
	}
	return until(ctx, "one event with a count, and one with a series, in both groups", func() (bool, error) {
		list, err := w.kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.name=events,involvedObject.kind=ConfigMap,involvedObject.uid=" + string(about.UID)})
		if err != nil {
			return false, err
		}
		both, err := w.kube.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=Series"})
		if err != nil {
			return false, err
		}
		counted, series := false, false
		for _, it := range list.Items {
			counted = counted || it.Reason == "Repeated" && it.Count == 3
		}
		for _, it := range both.Items {
			series = series || it.Regarding.Name == "events" && it.Series != nil && it.Series.Count >= 2
		}
		if !counted || !series {
			return false, fmt.Errorf("counted %v, series %v", counted, series)
		}
		return true, nil
	})
}

func typedApply(ctx context.Context, w *world) error {
	maps := w.kube.CoreV1().ConfigMaps(namespace)
	one := applycore.ConfigMap("applied", namespace).WithData(map[string]string{"a": "1", "b": "1"})
	made, err := maps.Apply(ctx, one, metav1.ApplyOptions{FieldManager: "one"})
	if err != nil {
		return fmt.Errorf("apply makes it: %w", err)
	}
	back, err := applycore.ExtractConfigMap(made, "one")
	if err != nil || !equality.Semantic.DeepEqual(back.Data, one.Data) {
		return fmt.Errorf("what one applied reads as %v: %w", back, err)
	}
	other := applycore.ConfigMap("applied", namespace).WithData(map[string]string{"a": "2"})
	_, err = maps.Apply(ctx, other, metav1.ApplyOptions{FieldManager: "two"})
	if !apierrors.IsConflict(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) {
		return fmt.Errorf("a field of another: %w", err)
	}
	taken, err := maps.Apply(ctx, other, metav1.ApplyOptions{FieldManager: "two", Force: true})
	if err != nil || taken.Data["a"] != "2" {
		return fmt.Errorf("by force %v: %w", taken.Data, err)
	}
	// One no longer wants anything: what two took stays, the rest goes.
	nothing := applycore.ConfigMap("applied", namespace)
	left, err := maps.Apply(ctx, nothing, metav1.ApplyOptions{FieldManager: "one"})
	if err != nil || len(left.Data) != 1 || left.Data["a"] != "2" {
		return fmt.Errorf("left is %v: %w", left.Data, err)
	}
	return nil
}

func certificate(ctx context.Context, w *world) error {
	request, key, err := certificateRequest("go-client", "go-group")
	if err != nil {
		return err
	}
	life := time.Hour
	usages := []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature}
	name, uid, err := csr.RequestCertificateWithContext(ctx, w.kube, request, "", certificatesv1.KubeAPIServerClientSignerName, &life,
		usages, key)
	if err != nil {
		return fmt.Errorf("request: %w", err)
	}
	requests := w.kube.CertificatesV1().CertificateSigningRequests()
	it, err := requests.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	it.Status.Conditions = append(it.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Tried", Message: "by a Go client"})
	if _, err := requests.UpdateApproval(ctx, name, it, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("approval: %w", err)
	}
	issued, err := csr.WaitForCertificate(ctx, w.kube, name, uid)
	if err != nil {
		return fmt.Errorf("wait: %w", err)
	}
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
	pair, err := tls.X509KeyPair(issued, keyPEM)
	if err != nil {
		return err
	}
	if lasts := time.Until(pair.Leaf.NotAfter); lasts > life+time.Minute || lasts < life/2 {
		return fmt.Errorf("it lasts %s", lasts)
	}
	config := rest.AnonymousClientConfig(w.protobuf)
	config.CertData, config.KeyData = issued, keyPEM
	return isUser(ctx, config, "go-client", "go-group")
}

func isUser(ctx context.Context, config *rest.Config, user, group string) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	it, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for _, name := range it.Status.UserInfo.Groups {
		if name == group && it.Status.UserInfo.Username == user {
			return nil
		}
	}
	return fmt.Errorf("it is taken for %+v", it.Status.UserInfo)
}

func tokens(ctx context.Context, w *world) error {
	accounts := w.kube.CoreV1().ServiceAccounts(namespace)
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: named("tokens")}, metav1.CreateOptions{}); err != nil {
		return err
	}
	made, err := accounts.CreateToken(ctx, "tokens", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: pointer(int64(900))}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	config := rest.AnonymousClientConfig(w.protobuf)
	config.BearerToken = made.Status.Token
	user := "system:serviceaccount:" + namespace + ":tokens"
	if err := isUser(ctx, config, user, "system:serviceaccounts:"+namespace); err != nil {
		return err
	}
	review, err := w.kube.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: made.Status.Token}}, metav1.CreateOptions{})
	if err != nil || !review.Status.Authenticated || review.Status.User.Username != user {
		return fmt.Errorf("the review says %+v: %w", review.Status, err)
	}
	acting := rest.CopyConfig(w.protobuf)
	acting.Impersonate = rest.ImpersonationConfig{UserName: "somebody", Groups: []string{"some", "where"}}
	if err := isUser(ctx, acting, "somebody", "where"); err != nil {
		return fmt.Errorf("impersonated: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		return fmt.Errorf("what it may not: %w", err)
	}
	access, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "list", Resource: "secrets", Namespace: namespace}}}, metav1.CreateOptions{})
	if err != nil || access.Status.Allowed {
		return fmt.Errorf("it says that it may: %+v: %w", access.Status, err)
	}
	return nil
}

func errorKinds(ctx context.Context, w *world) error {
	maps := w.kube.CoreV1().ConfigMaps(namespace)
	var wrong complaints
	_, err := maps.Get(ctx, "nowhere", metav1.GetOptions{})
	wrong.check(apierrors.IsNotFound(err), "not found: %v", err)
	_, err = maps.Create(ctx, configMap("Not A Name"), metav1.CreateOptions{})
	wrong.check(apierrors.IsInvalid(err) && apierrors.HasStatusCause(err, metav1.CauseTypeFieldValueInvalid), "invalid: %v", err)
	_, err = w.kube.CoreV1().ConfigMaps("no-such-namespace").Create(ctx,
		&corev1.ConfigMap{ObjectMeta: named("one")}, metav1.CreateOptions{})
	wrong.check(apierrors.IsNotFound(err), "no namespace: %v", err)
	frozen, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: named("frozen"), Immutable: pointer(true)}, metav1.CreateOptions{})
	wrong.check(err == nil, "immutable: %v", err)
	frozen.Data = map[string]string{"a": "b"}
	_, err = maps.Update(ctx, frozen, metav1.UpdateOptions{})
	wrong.check(apierrors.IsInvalid(err), "a change of what is immutable: %v", err)
	// The library would ask again and again.
	err = w.kube.CoreV1().RESTClient().Get().Namespace(namespace).Resource("configmaps").Param("resourceVersion", "99999999999").
		MaxRetries(0).Do(ctx).Error()
	wrong.check(apierrors.IsTimeout(err) && apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge), "the future: %v", err)
	_, err = maps.Patch(ctx, "frozen", types.JSONPatchType, []byte(`[{"op":"test","path":"/data/a","value":"z"}]`), metav1.PatchOptions{})
	wrong.check(apierrors.IsInvalid(err), "a test that fails: %v", err)
	return wrong.err()
}

func scale(ctx context.Context, w *world) error {
	deployments := w.kube.AppsV1().Deployments(namespace)
	made, err := deployments.Create(ctx, deployment("scaled"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	current, err := deployments.GetScale(ctx, made.Name, metav1.GetOptions{})
	if err != nil || current.Spec.Replicas != 0 || current.Status.Selector != "app=go-clients" {
		return fmt.Errorf("%+v: %w", current, err)
	}
	if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if current, err = deployments.GetScale(ctx, made.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		current.Spec.Replicas = 2
		_, err = deployments.UpdateScale(ctx, made.Name, current, metav1.UpdateOptions{})
		return err
	}); err != nil {
		return err
	}
	if err := until(ctx, "the Deployment has two pods", func() (bool, error) {
		it, err := deployments.Get(ctx, made.Name, metav1.GetOptions{})
		return err == nil && *it.Spec.Replicas == 2 && it.Status.Replicas == 2 && it.Status.ObservedGeneration == it.Generation, err
	}); err != nil {
		return err
	}
	foreground := metav1.DeletePropagationForeground
	if err := deployments.Delete(ctx, made.Name, metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		return err
	}
	return until(ctx, "a foreground delete leaves nothing", func() (bool, error) {
		sets, err := w.kube.AppsV1().ReplicaSets(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=go-clients"})
		if err != nil {
			return false, err
		}
		_, err = deployments.Get(ctx, made.Name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return false, err
		}
		return len(sets.Items) == 0, nil
	})
}
