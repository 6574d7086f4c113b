# Embedded only: pods are processes of this machine, and upstream's images are this binary, by upstream's names.
#
# A script that was written for clusteradm, as the guides of Open Cluster Management have them: it cuts the join command out
# of what is printed, and tells it more. Here clusteradm is a link to this binary, and the script does not know.

file setup.sh
    #!/bin/bash
    set -eu -o pipefail
    c1=cluster1
    hub="--kubeconfig hub.kubeconfig"
    edge="--kubeconfig edge.kubeconfig"
    
    echo "Initialize the ocm hub cluster"
    clusteradm init --wait --bundle-version=default $hub
    joincmd=$(clusteradm get token $hub | grep clusteradm)
    
    echo "Join cluster1 to hub"
    $(echo ${joincmd} --force-internal-endpoint-lookup --wait $edge | sed "s/<cluster_name>/$c1/g")
    
    echo "Accept join of cluster1"
    clusteradm accept $hub --clusters ${c1} --wait
    
    kubectl get managedclusters --no-headers -o name $hub

file teardown.sh
    #!/bin/bash
    set -eu -o pipefail
    clusteradm --kubeconfig=edge.kubeconfig unjoin --cluster-name cluster1
    kubectl --kubeconfig hub.kubeconfig delete managedcluster cluster1 --timeout=60s
    clusteradm --kubeconfig=hub.kubeconfig clean

file manifest.yaml
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: hello, namespace: default}
    data: {color: red}

start one $ drover kube up --data-dir one --write-kubeconfig hub.kubeconfig

wait log one
kube ready ...
...
Try:
...

start two $ drover kube up --data-dir two --write-kubeconfig edge.kubeconfig

wait log two
kube ready ...
...
Try:
...

let PATH $ mkdir bin && ln -s "$(command -v drover)" bin/clusteradm && echo "$PWD/bin:$PATH"

# Before: as upstream says it.
$ clusteradm get clusters --kubeconfig hub.kubeconfig 2>&1
Error: hub oriented command should not running against non-hub cluster
exit 1

$ clusteradm get klusterlet-info --kubeconfig edge.kubeconfig 2>&1
Error: managed cluster oriented command should not running against non-managed cluster
exit 1

$ clusteradm clean --kubeconfig hub.kubeconfig 2>&1
Error: hub has not been initialized
exit 1

$ clusteradm unjoin --cluster-name cluster1 --kubeconfig edge.kubeconfig
Remove applied resources in the managed cluster cluster1 ...
klusterlet CRD not found, there is no need to unjoin.

$ clusteradm join --cluster-name cluster1 2>&1
Error: token is missing
exit 1

$ clusteradm init --registration-drivers=x --kubeconfig hub.kubeconfig 2>&1
flag kubeconfig has been set
flag registration-drivers has been set
Preflight check: HubApiServer check Passed with 0 warnings and 0 errors
...[WARNING cluster-info check]: no ConfigMap named cluster-info in the kube-public namespace, clusteradm will creates it
Preflight check: cluster-info check Passed with 1 warnings and 0 errors
Error: only csr,awsirsa and grpc are valid drivers...
exit 1

# A dry run shows the objects, and makes none.
$ clusteradm init --dry-run --kubeconfig hub.kubeconfig 2> checks | grep -e '^kind: ClusterManager$' -e '^    image: quay' -e '^        image: quay' -e 'dry-run'
clusteradm is running in dry-run mode
flag dry-run has been set
        image: quay.io/open-cluster-management/registration-operator:v1.3.1
kind: ClusterManager

$ kubectl --kubeconfig hub.kubeconfig get namespace open-cluster-management 2>&1
Error from server (NotFound): namespaces "open-cluster-management" not found
exit 1

# The whole of it.
$ bash setup.sh 2> checks
Initialize the ocm hub cluster
flag bundle-version has been set
flag kubeconfig has been set
flag wait has been set
CRD successfully registered.
Registration operator is now available.
ClusterManager registration is now available.
The multicluster hub control plane has been initialized successfully!
...
    clusteradm join --hub-token ... --hub-apiserver https://... --wait --cluster-name <cluster_name>
...
Join cluster1 to hub
CRD successfully registered.
Registration operator is now available.
Klusterlet is now available.
Managed cluster is created.
Please log onto the hub cluster and run the following command:
<blank>
    clusteradm accept --clusters cluster1
<blank>
This is not needed when the ManagedClusterAutoApproval feature is enabled
Accept join of cluster1
Starting approve csrs for the cluster cluster1
...
CSR cluster1-... approved
<blank>
 Your managed cluster cluster1 has joined the Hub successfully. Visit ...
managedcluster.cluster.open-cluster-management.io/cluster1

$ grep -e '^Preflight check: HubKubeconfig' -e '^Preflight check: ClusterName' checks
Preflight check: HubKubeconfig check Passed with ... 0 errors
Preflight check: ClusterName Check Passed with 0 warnings and 0 errors

$ kubectl --kubeconfig hub.kubeconfig wait managedcluster/cluster1 --for=condition=ManagedClusterConditionAvailable --timeout=60s
managedcluster.cluster.open-cluster-management.io/cluster1 condition met

# Upstream's Deployments, with its images.
$ kubectl --kubeconfig edge.kubeconfig get deployments -A -o jsonpath='{range .items[*]}{.metadata.namespace}/{.metadata.name}{"\n"}{end}' | sort
open-cluster-management-agent/klusterlet-registration-agent
open-cluster-management-agent/klusterlet-work-agent
open-cluster-management/klusterlet

wait $ clusteradm get hub-info --kubeconfig hub.kubeconfig
Registration Operator:
  Controller:	(3/3) quay.io/open-cluster-management/registration-operator:v1.3.1
  CustomResourceDefinition:
    (installed) clustermanagers.operator.open-cluster-management.io [*v1]
Components:
  AddOn Manager:
    Controller:	(1/1) quay.io/open-cluster-management/addon-manager:v1.3.1
  Registration:
    Controller:	(1/1) quay.io/open-cluster-management/registration:v1.3.1
    Webhook:	(1/1) quay.io/open-cluster-management/registration:v1.3.1
  Work:
    Webhook:	(1/1) quay.io/open-cluster-management/work:v1.3.1
  Placement:
    Controller:	(1/1) quay.io/open-cluster-management/placement:v1.3.1
  CustomResourceDefinition:
...

wait $ clusteradm get klusterlet-info --kubeconfig edge.kubeconfig | grep -A 4 -e '^Components'
Components:
  Registration:
    Agent:	(1/1) quay.io/open-cluster-management/registration:v1.3.1
  Work:
    Agent:	(1/1) quay.io/open-cluster-management/work:v1.3.1

# The rest of a day with it.
set KUBECONFIG=hub.kubeconfig

$ clusteradm create clusterset blue && clusteradm clusterset set blue --clusters cluster1 && clusteradm clusterset bind blue --namespace default
Clusterset blue is created
Cluster cluster1 is set, from ClusterSet default to Clusterset blue
Clusterset blue is bound to Namespace default

$ clusteradm create work hello -f manifest.yaml --clusters cluster1
create work hello in cluster cluster1

$ clusteradm addon create colors -f manifest.yaml && clusteradm addon enable --names colors --clusters cluster1
AddonTemplate colors-0.0.1 is created
ClusterManagementAddon colors is created
Deploying colors add-on to namespaces open-cluster-management-agent-addon of managed cluster: cluster1.

wait $ clusteradm get works hello --cluster cluster1 -o table
NAME    CLUSTER    NUMBER OF MANIFESTS   APPLIED   AVAILABLE
hello   cluster1   1                     True      True

wait $ clusteradm get addon colors | grep ManifestApplied
...ManifestApplied -> true

# JSON stands alone, and the token is of the kind that was asked for.
$ clusteradm get token -o json | tr -d '\n'; echo
{  "hub-token": "...",  "hub-apiserver": "https://..."}

$ clusteradm upgrade clustermanager --bundle-version v1.3.0 --wait
clustermanager installed. starting upgrade
CRD successfully registered.
Registration operator is now available.
upgraded completed successfully

$ kubectl get clustermanager cluster-manager -o jsonpath='{.spec.registrationImagePullSpec}{"\n"}'
quay.io/open-cluster-management/registration:v1.3.0

$ clusteradm addon disable --names colors --clusters cluster1 && clusteradm delete work hello --clusters cluster1
Undeploying colors add-on in managed cluster: cluster1.
work hello in cluster cluster1 is deleted

wait $ kubectl get managedclusteraddons,manifestworks -n cluster1 -o name

$ bash teardown.sh
Remove applied resources in the managed cluster cluster1 ...
...
Applied resources have been deleted during the cluster1 joined stage. The status of mcl cluster1 will be unknown in the hub cluster.
managedcluster.cluster.open-cluster-management.io "cluster1" deleted...
...
The multicluster hub control plane has been clean up successfully!

$ kubectl get crds,namespaces,clusterroles,clusterrolebindings,deployments -A -o name | grep -e open-cluster-management -e cluster-manager
exit 1

stop two

stop one
