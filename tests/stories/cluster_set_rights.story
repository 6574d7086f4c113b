# Who may put clusters into a set, and who may use one: the rights `managedclustersets/join` and `managedclustersets/bind`,
# and what is refused whoever asks.

file rights.yaml
    apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRole
    metadata: {name: editor}
    rules:
      - {apiGroups: [cluster.open-cluster-management.io], resources: [managedclusters, managedclustersetbindings], verbs: ["*"]}
      - {apiGroups: [cluster.open-cluster-management.io], resources: [managedclustersets], verbs: [get]}
    ---
    apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRole
    metadata: {name: of-team}
    rules:
      - apiGroups: [cluster.open-cluster-management.io]
        resources: [managedclustersets/join, managedclustersets/bind]
        resourceNames: [default, team]
        verbs: [create]
    ---
    apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRoleBinding
    metadata: {name: bob-editor}
    roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: editor}
    subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}]
    ---
    apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRoleBinding
    metadata: {name: bob-of-team}
    roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: of-team}
    subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}]

file binding.yaml
    apiVersion: cluster.open-cluster-management.io/v1beta2
    kind: ManagedClusterSetBinding
    metadata: {name: other, namespace: default}
    spec: {clusterSet: team}

file cluster.yaml
    apiVersion: cluster.open-cluster-management.io/v1
    kind: ManagedCluster
    metadata: {name: theirs}
    spec:
      managedClusterClientConfigs: [{url: "http://insecure"}]

start up $ drover up --clusters 1

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

$ kubectl apply -f rights.yaml
...

$ drover create clusterset team
Clusterset team is created

$ drover create clusterset prod
Clusterset prod is created

# Bob may move clusters between default and team, and no others.
$ kubectl --as=bob label managedcluster cluster1 cluster.open-cluster-management.io/clusterset=team --overwrite
managedcluster.cluster.open-cluster-management.io/cluster1 labeled

$ kubectl --as=bob label managedcluster cluster1 cluster.open-cluster-management.io/clusterset=prod --overwrite 2>&1
Error from server (Forbidden): admission webhook "managedclustervalidators.admission.cluster.open-cluster-management.io" denied the request: managedclustersets/join.cluster.open-cluster-management.io "prod" is forbidden: user "bob" cannot add/remove a ManagedCluster to/from ManagedClusterSet "prod"
exit 1

$ drover clusterset set prod --clusters cluster1
Cluster cluster1 is set, from ClusterSet team to Clusterset prod

# Nor take one out of a set that is not his.
$ kubectl --as=bob label managedcluster cluster1 cluster.open-cluster-management.io/clusterset=team --overwrite 2>&1
Error from server (Forbidden): admission webhook "managedclustervalidators.admission.cluster.open-cluster-management.io" denied the request: managedclustersets/join.cluster.open-cluster-management.io "prod" is forbidden: user "bob" cannot add/remove a ManagedCluster to/from ManagedClusterSet "prod"
exit 1

# A cluster whose label is taken away is in default again, which counts as leaving a set, too.
$ kubectl --as=bob label managedcluster cluster1 cluster.open-cluster-management.io/clusterset- 2>&1
Error from server (Forbidden): ... user "bob" cannot add/remove a ManagedCluster to/from ManagedClusterSet "prod"
exit 1

$ kubectl label managedcluster cluster1 cluster.open-cluster-management.io/clusterset-
managedcluster.cluster.open-cluster-management.io/cluster1 ...

$ kubectl get managedcluster cluster1 -o jsonpath='{.metadata.labels.cluster\.open-cluster-management\.io/clusterset}'
default

# What is not about the set needs no right on it.
$ kubectl --as=bob label managedcluster cluster1 env=prod
managedcluster.cluster.open-cluster-management.io/cluster1 labeled

# He may let namespaces use his set and no other, under its own name.
$ sed 's/other/prod/; s/team/prod/' binding.yaml | kubectl --as=bob create -f - 2>&1
Error from server (Forbidden): error when creating "STDIN": admission webhook "managedclustersetbindingvalidators.admission.cluster.open-cluster-management.io" denied the request: managedclustersets/bind.apps "prod" is forbidden: user "bob" is not allowed to bind cluster set "prod"
exit 1

$ kubectl --as=bob create -f binding.yaml 2>&1
Error from server (BadRequest): error when creating "binding.yaml": admission webhook "managedclustersetbindingvalidators.admission.cluster.open-cluster-management.io" denied the request: The ManagedClusterSetBinding must have the same name as the target ManagedClusterSet
exit 1

$ sed 's/other/team/' binding.yaml | kubectl --as=bob create -f -
managedclustersetbinding.cluster.open-cluster-management.io/team created

$ kubectl --as=bob annotate managedclustersetbinding -n default team mine=yes
managedclustersetbinding.cluster.open-cluster-management.io/team annotated

$ kubectl --as=bob patch managedclustersetbinding -n default team --type=merge -p '{"spec":{"clusterSet":"prod"}}' 2>&1
Error from server (BadRequest): ... must have the same name as the target ManagedClusterSet
exit 1

# A taint has the time that the hub gave it, and no other.
$ kubectl patch managedcluster cluster1 --type=merge -p '{"spec":{"taints":[{"key":"gpu","effect":"NoSelect"}]}}'
managedcluster.cluster.open-cluster-management.io/cluster1 patched

$ kubectl patch managedcluster cluster1 --type=merge -p '{"spec":{"taints":[{"key":"gpu","effect":"NoSelect","timeAdded":"2020-01-01T00:00:00Z"}]}}' 2>&1
Error from server (BadRequest): admission webhook "managedclustermutators.admission.cluster.open-cluster-management.io" denied the request: It is not allowed to set TimeAdded of Taint "gpu".
exit 1

# An agent's server is reached over TLS; a cluster is accepted by those who may.
$ kubectl --as=bob create -f cluster.yaml 2>&1
Error from server (BadRequest): error when creating "cluster.yaml": admission webhook "managedclustervalidators.admission.cluster.open-cluster-management.io" denied the request: url "http://insecure" is invalid in client configs
exit 1

$ sed 's/http:/https:/' cluster.yaml | kubectl --as=bob create -f -
managedcluster.cluster.open-cluster-management.io/theirs created

$ kubectl --as=bob patch managedcluster theirs --type=merge -p '{"spec":{"hubAcceptsClient":true}}' 2>&1
Error from server (Forbidden): admission webhook "managedclustervalidators.admission.cluster.open-cluster-management.io" denied the request: managedclusters/accept.cluster.open-cluster-management.io "theirs" is forbidden: user "bob" cannot update the HubAcceptsClient field
exit 1

stop up
