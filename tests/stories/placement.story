# The placement of the walk-through: clusters on aws, chosen by a claim, from a set that is bound to the namespace.

file placement-aws.yaml
    apiVersion: cluster.open-cluster-management.io/v1beta1
    kind: Placement
    metadata:
      name: placement-aws
      namespace: default
    spec:
      predicates:
        - requiredClusterSelector:
            claimSelector:
              matchExpressions:
                - key: platform.open-cluster-management.io
                  operator: In
                  values:
                    - aws

file claim.yaml
    apiVersion: cluster.open-cluster-management.io/v1alpha1
    kind: ClusterClaim
    metadata:
      name: platform.open-cluster-management.io
    spec:
      value: aws

file wrong.json
    {"spec": {"predicates": [{"requiredClusterSelector": {"labelSelector": {"matchExpressions": [{"key": "env", "operator": "In"}]}}}]}}

start up $ drover up

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

# Without a binding there is nothing to choose from.
$ kubectl apply -f placement-aws.yaml
placement.cluster.open-cluster-management.io/placement-aws created

wait $ kubectl get placement placement-aws
NAME            SUCCEEDED   REASON                        SELECTEDCLUSTERS
placement-aws   False       NoManagedClusterSetBindings   0

$ drover why placement/placement-aws --cluster cluster1
No ManagedClusterSet is bound to namespace default: `drover clusterset bind SET -n default` binds one.
Cluster cluster1 is in none of the sets that the placement may choose from.

$ drover create clusterset prod
Clusterset prod is created

$ drover clusterset set prod --clusters cluster1,cluster2
Cluster cluster1 is set, from ClusterSet default to Clusterset prod
Cluster cluster2 is set, from ClusterSet default to Clusterset prod

$ drover clusterset bind prod -n default
Clusterset prod is bound to Namespace default

wait $ kubectl get placement placement-aws
NAME            SUCCEEDED   REASON                    SELECTEDCLUSTERS
placement-aws   False       NoManagedClusterMatched   0

# cluster1 says that it is on aws.
$ kubectl --kubeconfig .drover/cluster1.kubeconfig apply -f claim.yaml
clusterclaim.cluster.open-cluster-management.io/platform.open-cluster-management.io created

wait $ kubectl get placementdecision -l cluster.open-cluster-management.io/placement=placement-aws -o jsonpath='{range .items[*]}{.metadata.name} {.metadata.labels.cluster\.open-cluster-management\.io/decision-group-index} {.status.decisions[*].clusterName}{"\n"}{end}'
placement-aws-decision-1 0 cluster1

wait $ drover get placements
NAME            STATUS   REASON                  SELECTEDCLUSTERS   NAMESPACE
placement-aws   True     AllDecisionsScheduled   <cluster>          default

$ drover why placement/placement-aws
2 clusters are in the sets prod; 1 fit, 1 are chosen.
Cluster cluster1 is chosen with score 200 (Balance 100, Steady 100).
Cluster cluster2 does not match: its claims do not satisfy platform.open-cluster-management.io=aws.

# A mistake empties nothing, and says what is wrong.
$ kubectl patch placement placement-aws --type merge --patch-file wrong.json
placement.cluster.open-cluster-management.io/placement-aws patched

wait $ drover get placements
NAME            STATUS   REASON          SELECTEDCLUSTERS   NAMESPACE
placement-aws   True     Misconfigured   <cluster>          default

$ kubectl apply -f placement-aws.yaml
placement.cluster.open-cluster-management.io/placement-aws configured

wait $ drover get placements
NAME            STATUS   REASON                  SELECTEDCLUSTERS   NAMESPACE
placement-aws   True     AllDecisionsScheduled   <cluster>          default

# A label change moves the decisions: cluster1 leaves the set.
$ drover create placement everything --clustersets prod
Placement 'everything' has been created in 'default' namespace

wait $ kubectl get placementdecision everything-decision-1 -o jsonpath='{.status.decisions[*].clusterName}{"\n"}'
cluster1 cluster2

$ kubectl label managedcluster cluster1 cluster.open-cluster-management.io/clusterset=default --overwrite
managedcluster.cluster.open-cluster-management.io/cluster1 labeled

wait $ kubectl get placementdecision everything-decision-1 -o jsonpath='{.status.decisions[*].clusterName}{"\n"}'
cluster2

# What happened is told.
wait $ kubectl get events -o jsonpath='{range .items[?(@.reason=="DecisionCreate")]}{.message}{"\n"}{end}'
Decision everything-decision-1 is created with placement everything in namespace default
Decision placement-aws-decision-1 is created with placement placement-aws in namespace default

# Who takes a set away waits a moment: the binding might come back.
$ drover clusterset unbind prod -n default
Clusterset prod is unbind from namespace default

wait $ kubectl get placement everything
NAME         SUCCEEDED   REASON                        SELECTEDCLUSTERS
everything   False       NoManagedClusterSetBindings   0

stop up
