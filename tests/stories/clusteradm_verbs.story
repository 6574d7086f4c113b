# Embedded only: the hub is a fleet of this machine.
#
# The binary called as clusteradm, by a link: the verbs that work on a hub, with clusteradm's flags, lines and pages.

file manifest.yaml
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: hello, namespace: default}
    data: {color: red}

start up $ drover up --clusters 2

wait log up
...
ready in ...
...

let PATH $ mkdir bin && ln -s "$(command -v drover)" bin/clusteradm && echo "$PWD/bin:$PATH"

set KUBECONFIG=.drover/hub.kubeconfig

$ clusteradm version
clusteradm...version...:v1.3.1
default bundle...version...:1.3.1

# Both spellings of a value, both places of a global flag, and a mistake as cobra tells it.
$ clusteradm --kubeconfig=.drover/hub.kubeconfig get clusters -o table
NAME       ACCEPTED   AVAILABLE   CLUSTERSET   CPU   MEMORY      KUBERNETES VERSION
cluster1   true       True        default      <any>   <any>   <any>
cluster2   true       True        default      <any>   <any>   <any>

$ clusteradm get clusters --output tree --kubeconfig .drover/hub.kubeconfig | head -4
<ManagedCluster>
└── <cluster1>
│   ├── <Accepted> true
│   ├── <Available> True

$ clusteradm get clusters --outptu table 2>&1
Error: unknown flag: --outptu
See 'clusteradm get clusters --help' for usage.
exit 1

$ clusteradm gte clusters 2>&1
Error: unknown command "gte" for "clusteradm"
<blank>
Did you mean this?
...
Run 'clusteradm --help' for usage.
exit 1

$ clusteradm get works 2>&1
Error: either --cluster or --clusters needs to be set
exit 1

$ clusteradm get clusters -o wide 2>&1
Error: invalid output format
exit 1

# A set, its namespace, its clusters.
$ clusteradm create clusterset blue --dry-run
clusteradm is running in dry-run mode
Clusterset blue is created (dry run)

$ clusteradm create clusterset blue
Clusterset blue is created

$ clusteradm create clusterset blue
Clusterset blue is already created

$ clusteradm clusterset bind blue --namespace default
Clusterset blue is bound to Namespace default

$ clusteradm clusterset set blue --clusters cluster1,cluster2
Cluster cluster1 is set, from ClusterSet default to Clusterset blue
Cluster cluster2 is set, from ClusterSet default to Clusterset blue

$ clusteradm delete clusterset blue
Clusterset blue still bind to a namespace! Please unbind before deleted.

$ clusteradm get clusters --clusterset=blue -otable
NAME       ACCEPTED   AVAILABLE   CLUSTERSET   CPU   MEMORY      KUBERNETES VERSION
cluster1   true       True        blue         <any>   <any>   <any>
cluster2   true       True        blue         <any>   <any>   <any>

# Two selectors: either is enough.
$ kubectl label managedcluster cluster1 region=apac && kubectl label managedcluster cluster2 region=emea
managedcluster.cluster.open-cluster-management.io/cluster1 labeled
managedcluster.cluster.open-cluster-management.io/cluster2 labeled

$ clusteradm create placement both --clustersets blue --label-selectors region=apac,region=emea
Placement 'both' has been created in 'default' namespace

$ clusteradm create placement other --namespace kube-public --clustersets blue 2>&1
Error: managedclustersetbindings.cluster.open-cluster-management.io "blue" not found: ...
exit 1

wait $ clusteradm get placements both
<Placement>
└── <both>
    └── <Namespace> default
    └── <ClusterSet> [blue]
    └── <Status>
    │   ├── <NumberOfSelectedClusters> 2
    │   ├── <Conditions>
    │       └── <PlacementConditionSatisfied> true
    │       └── <PlacementConditionMisconfigured> false
    └── <PlacementDecision> [cluster1 cluster2]

$ clusteradm create work hello -f manifest.yaml --clusters cluster1
create work hello in cluster cluster1

# Unlike drover's, it is no failure that it is there.
$ clusteradm create work hello -f manifest.yaml --cluster cluster1
work hello in cluster cluster1 already exists

$ clusteradm create work hello -f manifest.yaml --placement default/both
work hello in cluster cluster1 already exists
create work hello in cluster cluster2

wait $ clusteradm get works hello -c cluster2
<ManifestWork>
└── <cluster2>
    └── <hello>
        └── <Number of Manifests> 1
        └── <Applied> True
        └── <Available> True
        └── <Resources>
            └── <configmaps>
                └── <default/hello> applied

$ clusteradm get works -o table --clusters cluster1 | head -1
NAME    CLUSTER    NUMBER OF MANIFESTS   APPLIED   AVAILABLE

$ clusteradm delete work hello --clusters cluster1,cluster2
work hello in cluster cluster1 is deleted
work hello in cluster cluster2 is deleted

# Add-ons.
$ clusteradm addon enable --names nothing --clusters cluster1 2>&1
Error: enabling the unknown addon nothing is not supported: ...
exit 1

$ clusteradm addon create hello --filename manifest.yaml --version 1.0
AddonTemplate hello-1.0 is created
ClusterManagementAddon hello is created

$ clusteradm addon enable --names hello --cluster cluster1
Deploying hello add-on to namespaces open-cluster-management-agent-addon of managed cluster: cluster1.

wait $ clusteradm get addon hello
<ClusterManagementAddon>
└── <hello>
    └── <cluster1>
        └── <Status>
        │   ├── <Available> Available -> ...
        │   ├── <ManifestApplied> ManifestApplied -> true
        │   ├── <RegistrationApplied> RegistrationApplied -> ...
        └── <ManifestWork>
            └── <configmaps>
                └── <default/hello> applied

$ clusteradm addon disable --names hello --clusters cluster1
Undeploying hello add-on in managed cluster: cluster1.

$ clusteradm install hub-addon --names governance-policy-framework --dry-run 2>&1 | tail -2
deployment.apps/governance-policy-propagator created (dry run)
deployment.apps/governance-policy-addon-controller created (dry run)

$ clusteradm proxy health
Cluster-Proxy addon is not installed.
Consider following the guide: https://open-cluster-management.io/getting-started/integration/cluster-proxy/

# Each of them is a verb of drover, too.
$ drover clusteradm get clustersets -o yaml | grep -e '^---' -e '^  name: '
  name: blue
---
  name: default
---
  name: global

$ drover proxy health | head -1
Cluster-Proxy addon is not installed.

$ clusteradm completion bash | grep -c 'complete -F _clusteradm'
...

$ clusteradm help get token | head -1
Print the token that clusters join with
