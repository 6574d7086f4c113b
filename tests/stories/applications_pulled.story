# An Application on the hub is carried out by a cluster that pulls it: the cluster gets it as a ManifestWork, and what its Argo CD says
# comes back. No Argo CD runs here: the story says what one would.
# Embedded only: `up --addons` is of a hub and clusters in one process.

file application.yaml
    apiVersion: argoproj.io/v1alpha1
    kind: Application
    metadata:
      name: guestbook
      namespace: argocd
      labels: {apps.open-cluster-management.io/pull-to-ocm-managed-cluster: "true"}
      annotations:
        apps.open-cluster-management.io/ocm-managed-cluster: cluster1
        argocd.argoproj.io/skip-reconcile: "true"
      finalizers: [resources-finalizer.argocd.argoproj.io]
    operation: {sync: {}}
    spec:
      project: default
      source: {repoURL: 'https://example.com/apps.git', path: guestbook, targetRevision: HEAD}
      destination: {name: cluster1, namespace: guestbook}

start up $ drover up --clusters 1 --addons argocd

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set CLUSTER=--kubeconfig=.drover/cluster1.kubeconfig

# Argo CD on the hub knows the cluster, for ApplicationSets.
wait $ kubectl get secret -n argocd cluster1-secret -o jsonpath='{.metadata.labels}{"\n"}'
{"argocd.argoproj.io/secret-type":"cluster"}

# Kubernetes warns of the finalizer's name, which is Argo CD's.
$ kubectl apply -f application.yaml 2>/dev/null
application.argoproj.io/guestbook created

wait $ kubectl $CLUSTER get applications -n argocd guestbook -o jsonpath='{.spec.destination}{"\n"}{.operation}{"\n"}'
{"name":"","namespace":"guestbook","server":"https://kubernetes.default.svc"}
{"sync":{}}

# It is told to sync once.
wait $ kubectl get application -n argocd guestbook -o jsonpath='[{.operation}]{"\n"}'
[]

# An Argo CD takes it away when it begins, and says how it ends.
$ kubectl $CLUSTER patch application -n argocd guestbook --type merge -p '{"operation": null, "status": {"health": {"status": "Healthy"}, "sync": {"status": "Synced", "revision": "abc"}}}' 2>/dev/null
application.argoproj.io/guestbook patched

wait $ kubectl get application -n argocd guestbook
NAME        SYNC STATUS   HEALTH STATUS
guestbook   Synced        Healthy

# It has not been told again.
$ kubectl $CLUSTER get applications -n argocd guestbook -o jsonpath='[{.operation}]{"\n"}'
[]

# An Argo CD would take its finalizer off.
$ kubectl $CLUSTER patch application -n argocd guestbook --type merge -p '{"metadata": {"finalizers": null}}' 2>/dev/null
application.argoproj.io/guestbook patched

$ kubectl delete application -n argocd guestbook 2>/dev/null
application.argoproj.io "guestbook" deleted

wait $ kubectl get manifestworks -n cluster1 -l apps.open-cluster-management.io/pull-to-ocm-managed-cluster=true -o name | wc -l
0

stop up
