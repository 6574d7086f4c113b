# An agent whose Secret holds a token that is no good any more: it says so, and joins as soon as a new one is put there. Nobody
# starts it again.
# Embedded only: the other cluster is a Kubernetes of this machine.

start up $ drover up --clusters 1

wait log up
...
ready in ...
...

start edge $ drover kube up --data-dir edge --write-kubeconfig edge.kubeconfig

wait log edge
kube ready ...
...
Try:
...

set KUBECONFIG=.drover/hub.kubeconfig

$ drover get token -o kubeconfig > good && sed 's/token: .*/token: spent.of0123456789abcd/' good > spent && ! cmp -s good spent && echo written
written

set EDGE=--kubeconfig=edge.kubeconfig

$ kubectl $EDGE create namespace open-cluster-management-agent
namespace/open-cluster-management-agent created

$ kubectl $EDGE create secret generic -n open-cluster-management-agent bootstrap-hub-kubeconfig --from-file=kubeconfig=spent
secret/bootstrap-hub-kubeconfig created

start agent $ drover $EDGE agent --cluster-name edge

wait log agent
...
...does not accept the credential of the kubeconfig: get a new kubeconfig from the hub...
...

# What is no kubeconfig changes nothing.
$ kubectl $EDGE patch secret -n open-cluster-management-agent bootstrap-hub-kubeconfig --type merge -p '{"stringData":{"kubeconfig":"none"}}'
secret/bootstrap-hub-kubeconfig patched

$ kubectl $EDGE create secret generic -n open-cluster-management-agent bootstrap-hub-kubeconfig --from-file=kubeconfig=good --dry-run=client -o yaml | kubectl $EDGE replace -f -
secret/bootstrap-hub-kubeconfig replaced

$ drover accept --clusters edge --wait
...
Your managed cluster edge has joined the Hub successfully.

# It did wait for the cluster's namespace as well.
$ kubectl get namespace edge -o name
namespace/edge

$ kubectl wait managedcluster/edge --for=condition=ManagedClusterConditionAvailable --timeout=60s
managedcluster.cluster.open-cluster-management.io/edge condition met

stop agent

stop edge

stop up
