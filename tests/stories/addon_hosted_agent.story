# A hosted add-on: the cluster `edge` is managed by an agent that lives on cluster1, and its add-on's agent runs there too.

file clustermanagementaddon.yaml
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: ClusterManagementAddOn
    metadata:
      name: helloworldhosted
    spec:
      addOnMeta:
        displayName: helloworldhosted

start up $ drover up --clusters 1

wait log up
...
ready in ...
...

# Another fleet, of which only the cluster is of interest: it stands for one that has no room for agents.
start other $ drover up --clusters 1 --data-dir other

wait log other
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set HOST=--kubeconfig=.drover/cluster1.kubeconfig

set EDGE=--kubeconfig=other/cluster1.kubeconfig

start agent $ drover $HOST agent --cluster-name edge --spoke-kubeconfig other/cluster1.kubeconfig --bootstrap-kubeconfig .drover/hub.kubeconfig

$ drover accept --clusters edge --wait --requesters kubernetes-admin
...
Your managed cluster edge has joined the Hub successfully.

# The agent's credential is where the agent is.
$ kubectl $HOST get secret -n edge hub-kubeconfig-secret -o name
secret/hub-kubeconfig-secret

# The way from the host to the managed cluster is the administrator's to make.
$ kubectl $HOST create namespace hosted-here
namespace/hosted-here created

$ kubectl $HOST create secret generic -n hosted-here helloworldhosted-managed-kubeconfig --from-file=kubeconfig=other/cluster1.kubeconfig
secret/helloworldhosted-managed-kubeconfig created

$ kubectl apply -f clustermanagementaddon.yaml
clustermanagementaddon.addon.open-cluster-management.io/helloworldhosted created

$ drover addon enable --names helloworldhosted --clusters edge --namespace hosted-here --annotate addon.open-cluster-management.io/hosting-cluster-name=cluster1
Deploying helloworldhosted add-on to namespaces hosted-here of managed cluster: edge.

$ kubectl wait -n edge managedclusteraddon/helloworldhosted --for=condition=Available --timeout=60s
managedclusteraddon.addon.open-cluster-management.io/helloworldhosted condition met

wait $ kubectl $HOST get deploy -n hosted-here
NAME                     READY   UP-TO-DATE   AVAILABLE   AGE
helloworldhosted-agent   1/1     1            1           <age>

$ kubectl $EDGE get deploy,pods -n hosted-here 2>&1
No resources found in hosted-here namespace.

# It runs there, and works here.
$ kubectl create configmap -n edge hello --from-literal=a=b
configmap/hello created

wait $ kubectl $EDGE get configmap -n hosted-here hello -o jsonpath='{.data.a}{"\n"}'
b

# It cleans up before it goes.
$ drover addon disable --names helloworldhosted
Undeploying helloworldhosted add-on in managed cluster: edge.

wait $ kubectl get managedclusteraddons,manifestworks -A -o name

wait $ kubectl $HOST get deploy,pods,leases -n hosted-here -o name

$ kubectl $EDGE get configmaps -n hosted-here -l synced-from-hub -o name

stop agent

stop other

stop up
