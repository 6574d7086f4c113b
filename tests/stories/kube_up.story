# The embedded Kubernetes on its own: kubectl finds a Kubernetes, nothing of Open Cluster Management, and everything again
# after a restart. A backup of it comes back.
# Embedded only: that is what it is about.

start kube $ drover kube up --data-dir data --write-kubeconfig admin.kubeconfig

wait log kube
kube ready   ...
...
Try:
  kubectl --kubeconfig admin.kubeconfig get namespaces
...

set KUBECONFIG=admin.kubeconfig

$ kubectl get namespaces -o name
namespace/default
namespace/kube-node-lease
namespace/kube-public
namespace/kube-system

$ kubectl get crds 2>&1
No resources found

$ kubectl create configmap a --from-literal=color=red
configmap/a created

$ stat -c %a admin.kubeconfig
600

# While it runs.
$ drover backup one.tgz --data-dir data
one.tgz: kube ...

$ kubectl delete configmap a
configmap "a" deleted...

stop kube

$ drover restore one.tgz --data-dir data 2>&1
error: data holds kube already; choose another directory with --data-dir, or replace everything with --overwrite
exit 1

$ drover restore one.tgz --data-dir data --overwrite
restored into data: kube ...

start again $ drover kube up --data-dir data

wait log again
kube ready   ...
...

# The port, the keys and the kubeconfig are those of before.
$ kubectl get configmap a -o jsonpath='{.data.color}'
red

stop again
