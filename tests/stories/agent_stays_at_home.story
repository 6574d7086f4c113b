# An agent may update its ManagedCluster, and with that it reaches no other cluster, nothing else of its own, and no longer than it
# is accepted.

file addon.yaml
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: ClusterManagementAddOn
    metadata:
      name: helloworldhosted
    spec:
      installStrategy:
        type: Placements
        placements:
          - {namespace: default, name: all}
    ---
    apiVersion: cluster.open-cluster-management.io/v1beta2
    kind: ManagedClusterSetBinding
    metadata: {namespace: default, name: default}
    spec: {clusterSet: default}
    ---
    apiVersion: cluster.open-cluster-management.io/v1beta1
    kind: Placement
    metadata: {namespace: default, name: all}
    spec: {}

file hosted.yaml
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: ManagedClusterAddOn
    metadata:
      name: other
      namespace: cluster1
      annotations:
        addon.open-cluster-management.io/hosting-cluster-name: cluster2
    spec: {}

file work.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata: {namespace: cluster1, name: w}
    spec:
      workload:
        manifests:
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}

file late.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata: {namespace: cluster1, name: late}
    spec:
      workload:
        manifests:
          - {apiVersion: v1, kind: Secret, metadata: {name: late, namespace: default}}

start up $ drover up

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set CLUSTER=--kubeconfig=.drover/cluster1.kubeconfig

set AGENT=--as=system:open-cluster-management:cluster1:a1 --as-group=system:open-cluster-management:cluster1 --as-group=system:open-cluster-management:managed-clusters

$ kubectl apply -f addon.yaml
clustermanagementaddon.addon.open-cluster-management.io/helloworldhosted created
managedclustersetbinding.cluster.open-cluster-management.io/default created
placement.cluster.open-cluster-management.io/all created

$ kubectl wait -n cluster1 managedclusteraddon/helloworldhosted --for=create --timeout=30s
managedclusteraddon.addon.open-cluster-management.io/helloworldhosted condition met

# Its annotations become those of its add-ons: it does not write them.
wait $ kubectl annotate managedcluster cluster1 addon.open-cluster-management.io/hosting-cluster-name=cluster2 --dry-run=client -o json | kubectl $AGENT replace -f - 2>&1
Error from server (Forbidden): error when replacing "STDIN": admission webhook "managedclustervalidators.admission.cluster.open-cluster-management.io" denied the request: managedclusters.cluster.open-cluster-management.io "cluster1" is forbidden: user "system:open-cluster-management:cluster1:a1" is an agent and cannot change metadata.annotations[addon.open-cluster-management.io/hosting-cluster-name]: ...
exit 1

wait $ kubectl label managedcluster cluster1 env=prod --dry-run=client -o json | kubectl $AGENT replace -f - 2>&1
Error from server (Forbidden): ... cannot change metadata.labels[env]: ...
exit 1

wait $ kubectl annotate managedcluster cluster1 agent.open-cluster-management.io/hello=there --dry-run=client -o json | kubectl $AGENT replace -f - 2>&1
managedcluster.cluster.open-cluster-management.io/cluster1 replaced

wait $ kubectl get managedcluster cluster1 -o json | sed 's/"status": "True"/"status": "False"/' | kubectl $AGENT replace --subresource=status -f - 2>&1
Error from server (Forbidden): ... cannot change status.conditions[...]: ...
exit 1

# Who may install add-ons on one cluster does not deploy onto another by them.
$ kubectl create clusterrole installer --verb=create,update,patch,get --resource=managedclusteraddons.addon.open-cluster-management.io
clusterrole.rbac.authorization.k8s.io/installer created

$ kubectl create rolebinding -n cluster1 installer --clusterrole=installer --user=mary
rolebinding.rbac.authorization.k8s.io/installer created

$ kubectl create --as mary -f hosted.yaml 2>&1
Error from server (Forbidden): error when creating "hosted.yaml": admission webhook "managedclusteraddonvalidators.admission.addon.open-cluster-management.io" denied the request: managedclusteraddons.addon.open-cluster-management.io "other" is forbidden: user "mary" cannot set metadata.annotations[addon.open-cluster-management.io/hosting-cluster-name] to "cluster2": that takes the right to create manifestworks in namespace "cluster2"
exit 1

# A work is held by the agent's own finalizer alone, and not read any more once the cluster is denied.
$ kubectl apply -f work.yaml
manifestwork.work.open-cluster-management.io/w created

$ kubectl wait -n cluster1 manifestwork/w --for=condition=Available --timeout=30s
manifestwork.work.open-cluster-management.io/w condition met

$ kubectl $AGENT patch manifestwork -n cluster1 w --type=json -p '[{"op":"add","path":"/metadata/finalizers/-","value":"example.com/mine"}]' 2>&1
Error from server (Forbidden): admission webhook "manifestworkvalidators.admission.work.open-cluster-management.io" denied the request: ... cannot add example.com/mine to metadata.finalizers: ...
exit 1

$ kubectl patch managedcluster cluster1 --type=merge -p '{"spec":{"hubAcceptsClient":false}}'
managedcluster.cluster.open-cluster-management.io/cluster1 patched

$ kubectl wait managedcluster/cluster1 --for=condition=HubAcceptedManagedCluster=false --timeout=10s
managedcluster.cluster.open-cluster-management.io/cluster1 condition met

$ kubectl $AGENT get manifestworks -n cluster1 2>&1
Error from server (Forbidden): ...
exit 1

$ kubectl apply -f late.yaml
manifestwork.work.open-cluster-management.io/late created

$ kubectl get rolebindings -n cluster1 -o name
rolebinding.rbac.authorization.k8s.io/installer

# Deleted, it leaves nothing behind that nobody could remove, and its agent removes by itself what it has applied.
$ kubectl delete managedcluster cluster1
managedcluster.cluster.open-cluster-management.io "cluster1" deleted...

$ kubectl get manifestworks -n cluster1 2>&1
No resources found in cluster1 namespace.

$ kubectl get events -n cluster1 -o jsonpath='{range .items[?(@.reason=="FinalizersRemoved")]}{.message}{"\n"}{end}' | grep -o 'manifestworks of cluster cluster1.*by the hub' | sort -u
manifestworks of cluster cluster1, which is deleted, are removed by the hub

stop up
