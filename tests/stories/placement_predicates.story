# Which clusters a placement may choose: sets, labels, claims, expressions. The clusters are written by hand: choosing asks
# the hub alone.

file clusters.yaml
    apiVersion: cluster.open-cluster-management.io/v1
    kind: ManagedCluster
    metadata: {name: a, labels: {env: prod}, annotations: {info: '{"tier":"gold"}'}}
    spec: {}
    ---
    apiVersion: cluster.open-cluster-management.io/v1
    kind: ManagedCluster
    metadata: {name: b, labels: {env: prod, zone: eu}, annotations: {info: '{"tier":"iron"}'}}
    spec: {}
    ---
    apiVersion: cluster.open-cluster-management.io/v1
    kind: ManagedCluster
    metadata: {name: c, labels: {env: dev, cluster.open-cluster-management.io/clusterset: lab}, annotations: {info: 'none'}}
    spec: {}

file available.json
    {"status": {"version": {"kubernetes": "v1.34.2"}, "conditions": [{"type": "ManagedClusterConditionAvailable", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}

file older.json
    {"status": {"version": {"kubernetes": "v1.29.0"}, "clusterClaims": [{"name": "region.open-cluster-management.io", "value": "eu"}]}}

file either.yaml
    apiVersion: cluster.open-cluster-management.io/v1beta1
    kind: Placement
    metadata: {name: p, namespace: default}
    spec:
      predicates:
        - requiredClusterSelector: {labelSelector: {matchLabels: {zone: eu}}}
        - requiredClusterSelector: {claimSelector: {matchExpressions: [{key: region.open-cluster-management.io, operator: Exists}]}}
      # Upstream accepts a spread and does nothing with it; so do we.
      spreadPolicy:
        spreadConstraints: [{topologyKey: zone, topologyKeyType: Label, maxSkew: 1}]

file both.yaml
    apiVersion: cluster.open-cluster-management.io/v1beta1
    kind: Placement
    metadata: {name: p, namespace: default}
    spec:
      predicates:
        - requiredClusterSelector:
            labelSelector: {matchLabels: {env: prod}}
            claimSelector: {matchExpressions: [{key: region.open-cluster-management.io, operator: NotIn, values: [eu]}]}

file version.yaml
    apiVersion: cluster.open-cluster-management.io/v1beta1
    kind: Placement
    metadata: {name: p, namespace: default}
    spec:
      predicates:
        - requiredClusterSelector:
            celSelector:
              celExpressions:
                - semver(managedCluster.status.version.kubernetes, true).isLessThan(semver("v1.30.0", true))

file json.yaml
    apiVersion: cluster.open-cluster-management.io/v1beta1
    kind: Placement
    metadata: {name: p, namespace: default}
    spec:
      predicates:
        - requiredClusterSelector:
            celSelector:
              celExpressions:
                - managedCluster.metadata.annotations["info"].parseJSON().tier == "gold"

file score.yaml
    apiVersion: cluster.open-cluster-management.io/v1beta1
    kind: Placement
    metadata: {name: p, namespace: default}
    spec:
      predicates:
        - requiredClusterSelector:
            celSelector:
              celExpressions:
                - managedCluster.scores("usage").exists(it, it.name == "gpu" && it.value > 50)

file wrong.yaml
    apiVersion: cluster.open-cluster-management.io/v1beta1
    kind: Placement
    metadata: {name: p, namespace: default}
    spec:
      predicates:
        - requiredClusterSelector: {celSelector: {celExpressions: ["managedCluster.nothing("]}}

file usage.yaml
    apiVersion: cluster.open-cluster-management.io/v1alpha1
    kind: AddOnPlacementScore
    metadata: {name: usage, namespace: b}

start up $ drover up --clusters 0

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set CHOSEN={.status.decisions[*].clusterName}

set SATISFIED={range .status.conditions[?(@.type=="PlacementSatisfied")]}{.status} {.reason}: {.message}{end}

$ kubectl apply -f clusters.yaml
...

$ for it in a b c; do kubectl patch managedcluster $it --subresource=status --type=merge --patch-file available.json; done
...

$ kubectl patch managedcluster c --subresource=status --type=merge --patch-file older.json
managedcluster.cluster.open-cluster-management.io/c patched

# No namespace may use a set before it is bound, and none that is not bound.
$ drover create placement p --clustersets lab
Placement 'p' has been created in 'default' namespace

wait $ kubectl get placement p -o jsonpath="$SATISFIED"
False NoManagedClusterSetBindings: No valid ManagedClusterSetBindings found in placement namespace

$ drover clusterset bind default -n default
Clusterset default is bound to Namespace default

wait $ kubectl get placement p -o jsonpath="$SATISFIED"
False NoIntersection: None of ManagedClusterSets [lab] is bound to placement namespace

$ drover create clusterset empty && drover clusterset bind empty -n default
Clusterset empty is created
Clusterset empty is bound to Namespace default

$ drover create placement p --clustersets empty,lab --overwrite
Placement 'p' of 'default' namespace has been updated

wait $ kubectl get placement p -o jsonpath="$SATISFIED"
False AllManagedClusterSetsEmpty: All ManagedClusterSets [empty] have no member ManagedCluster

# A placement that has chosen nothing has a decision that says so.
$ kubectl get placementdecisions -o jsonpath='{range .items[*]}{.metadata.name} [{.status.decisions}]{"\n"}{end}'
p-decision-1 []

$ drover create clusterset lab && drover clusterset bind lab -n default
Clusterset lab is created
Clusterset lab is bound to Namespace default

wait $ kubectl get placementdecision p-decision-1 -o jsonpath="$CHOSEN"
c

# One of several requirements has to hold.
$ kubectl replace -f either.yaml
...

wait $ kubectl get placementdecision p-decision-1 -o jsonpath="$CHOSEN"
b c

# Within one, everything.
$ kubectl replace -f both.yaml
...

wait $ kubectl get placementdecision p-decision-1 -o jsonpath="$CHOSEN"
a b

$ kubectl patch managedcluster a --subresource=status --type=merge --patch-file older.json
managedcluster.cluster.open-cluster-management.io/a patched

wait $ kubectl get placementdecision p-decision-1 -o jsonpath="$CHOSEN"
b

# Expressions: on all that the hub knows of a cluster,
$ kubectl replace -f version.yaml
...

wait $ kubectl get placementdecision p-decision-1 -o jsonpath="$CHOSEN"
a c

# on JSON in an annotation,
$ kubectl replace -f json.yaml
...

wait $ kubectl get placementdecision p-decision-1 -o jsonpath="$CHOSEN"
a

$ drover why placement/p --cluster c
...
Cluster c does not match: ...parseJSON...

# and on what add-ons measure.
$ kubectl create namespace b && kubectl apply -f usage.yaml
...

$ kubectl patch addonplacementscore -n b usage --subresource=status --type=merge -p '{"status":{"scores":[{"name":"gpu","value":60}]}}'
addonplacementscore.cluster.open-cluster-management.io/usage patched

$ kubectl replace -f score.yaml
...

wait $ kubectl get placementdecision p-decision-1 -o jsonpath="$CHOSEN"
b

$ kubectl patch addonplacementscore -n b usage --subresource=status --type=merge -p '{"status":{"scores":[{"name":"gpu","value":10}]}}'
addonplacementscore.cluster.open-cluster-management.io/usage patched

wait $ kubectl get placement p -o jsonpath="$SATISFIED"
False NoManagedClusterMatched: No ManagedCluster matches any of the cluster predicate

# What cannot be read changes no decision.
$ kubectl replace -f json.yaml
...

wait $ kubectl get placementdecision p-decision-1 -o jsonpath="$CHOSEN"
a

$ kubectl replace -f wrong.yaml
...

wait $ kubectl get placement p -o jsonpath='{range .status.conditions[?(@.type=="PlacementMisconfigured")]}{.status} {.reason}{end}'
True Misconfigured

$ kubectl get placementdecision p-decision-1 -o jsonpath="$CHOSEN"
a

# A switch holds the decisions as they are.
$ drover create placement p --overwrite
Placement 'p' of 'default' namespace has been updated

wait $ kubectl get placementdecision p-decision-1 -o jsonpath="$CHOSEN"
a b c

$ kubectl annotate placement p cluster.open-cluster-management.io/experimental-scheduling-disable=true
placement.cluster.open-cluster-management.io/p annotated

$ drover create placement other
Placement 'other' has been created in 'default' namespace

$ kubectl label managedcluster c cluster.open-cluster-management.io/clusterset=nobodys --overwrite
managedcluster.cluster.open-cluster-management.io/c labeled

wait $ kubectl get placementdecision other-decision-1 -o jsonpath="$CHOSEN"
a b

$ kubectl get placementdecision p-decision-1 -o jsonpath="$CHOSEN"
a b c

$ kubectl annotate placement p cluster.open-cluster-management.io/experimental-scheduling-disable-
placement.cluster.open-cluster-management.io/p annotated

wait $ kubectl get placementdecision p-decision-1 -o jsonpath="$CHOSEN"
a b

# A cluster that is deleted leaves, a decision that is deleted comes back, and all go with their placement.
$ kubectl delete managedcluster b --wait=false
managedcluster.cluster.open-cluster-management.io "b" deleted...

wait $ kubectl get placementdecision p-decision-1 -o jsonpath="$CHOSEN"
a

$ kubectl delete placementdecision p-decision-1
placementdecision.cluster.open-cluster-management.io "p-decision-1" deleted...

wait $ kubectl get placementdecision p-decision-1 -o jsonpath="$CHOSEN"
a

$ kubectl delete placement p other
...

wait $ kubectl get placementdecisions 2>&1
No resources found in default namespace.

stop up
