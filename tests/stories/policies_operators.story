# An operator is subscribed to on a cluster, its first InstallPlan is approved, and it goes again. OLM's kinds are there, and the story is
# OLM: it writes what OLM would.
# Embedded only: `up --addons` is of a hub and clusters in one process.

file olm.yaml
    apiVersion: apiextensions.k8s.io/v1
    kind: CustomResourceDefinition
    metadata: {name: operatorgroups.operators.coreos.com}
    spec:
      group: operators.coreos.com
      scope: Namespaced
      names: {kind: OperatorGroup, plural: operatorgroups, singular: operatorgroup}
      versions:
      - name: v1
        served: true
        storage: true
        subresources: {status: {}}
        schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    ---
    apiVersion: apiextensions.k8s.io/v1
    kind: CustomResourceDefinition
    metadata: {name: subscriptions.operators.coreos.com}
    spec:
      group: operators.coreos.com
      scope: Namespaced
      names: {kind: Subscription, plural: subscriptions, singular: subscription}
      versions:
      - name: v1alpha1
        served: true
        storage: true
        subresources: {status: {}}
        schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    ---
    apiVersion: apiextensions.k8s.io/v1
    kind: CustomResourceDefinition
    metadata: {name: installplans.operators.coreos.com}
    spec:
      group: operators.coreos.com
      scope: Namespaced
      names: {kind: InstallPlan, plural: installplans, singular: installplan}
      versions:
      - name: v1alpha1
        served: true
        storage: true
        subresources: {status: {}}
        schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    ---
    apiVersion: apiextensions.k8s.io/v1
    kind: CustomResourceDefinition
    metadata: {name: clusterserviceversions.operators.coreos.com}
    spec:
      group: operators.coreos.com
      scope: Namespaced
      names: {kind: ClusterServiceVersion, plural: clusterserviceversions, singular: clusterserviceversion}
      versions:
      - name: v1alpha1
        served: true
        storage: true
        subresources: {status: {}}
        schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    ---
    apiVersion: apiextensions.k8s.io/v1
    kind: CustomResourceDefinition
    metadata: {name: catalogsources.operators.coreos.com}
    spec:
      group: operators.coreos.com
      scope: Namespaced
      names: {kind: CatalogSource, plural: catalogsources, singular: catalogsource}
      versions:
      - name: v1alpha1
        served: true
        storage: true
        subresources: {status: {}}
        schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    ---
    apiVersion: apiextensions.k8s.io/v1
    kind: CustomResourceDefinition
    metadata: {name: packagemanifests.packages.operators.coreos.com}
    spec:
      group: packages.operators.coreos.com
      scope: Namespaced
      names: {kind: PackageManifest, plural: packagemanifests, singular: packagemanifest}
      versions:
      - name: v1
        served: true
        storage: true
        subresources: {status: {}}
        schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}

file catalog.yaml
    apiVersion: operators.coreos.com/v1alpha1
    kind: CatalogSource
    metadata: {name: catalog, namespace: default}

file plan.yaml
    apiVersion: operators.coreos.com/v1alpha1
    kind: InstallPlan
    metadata: {name: install-1, namespace: default}
    spec: {approval: Manual, approved: false, clusterServiceVersionNames: [quay.v1], generation: 1}

file policy.yaml
    apiVersion: policy.open-cluster-management.io/v1
    kind: Policy
    metadata: {name: operators, namespace: default}
    spec:
      disabled: false
      remediationAction: enforce
      policy-templates:
      - objectDefinition:
          apiVersion: policy.open-cluster-management.io/v1beta1
          kind: OperatorPolicy
          metadata: {name: quay}
          spec:
            remediationAction: inform
            severity: low
            complianceType: musthave
            upgradeApproval: None
            versions: [quay.v1]
            subscription: {name: quay, namespace: default, channel: stable, source: catalog, sourceNamespace: default}
    ---
    apiVersion: cluster.open-cluster-management.io/v1beta2
    kind: ManagedClusterSetBinding
    metadata: {name: global, namespace: default}
    spec: {clusterSet: global}
    ---
    apiVersion: cluster.open-cluster-management.io/v1beta1
    kind: Placement
    metadata: {name: everywhere, namespace: default}
    spec: {}
    ---
    apiVersion: policy.open-cluster-management.io/v1
    kind: PlacementBinding
    metadata: {name: operators, namespace: default}
    placementRef: {apiGroup: cluster.open-cluster-management.io, kind: Placement, name: everywhere}
    subjects:
    - {apiGroup: policy.open-cluster-management.io, kind: Policy, name: operators}

start up $ drover up --clusters 1 --addons governance-policy-framework,config-policy-controller

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set CLUSTER=--kubeconfig=.drover/cluster1.kubeconfig

$ kubectl apply -f policy.yaml
policy.policy.open-cluster-management.io/operators created
...

# Without OLM it says so.
wait $ drover get policies
NAMESPACE   NAME        ACTION    COMPLIANCE     CLUSTERS   NOT COMPLIANT
default     operators   enforce   NonCompliant   1          cluster1

$ kubectl $CLUSTER apply -f olm.yaml -o name | wc -l
6

$ kubectl $CLUSTER wait --for=condition=Established -f olm.yaml | wc -l
6

$ kubectl $CLUSTER apply -f catalog.yaml
catalogsource.operators.coreos.com/catalog created

$ kubectl $CLUSTER patch catalogsource catalog --subresource=status --type=merge -p '{"status": {"connectionState": {"lastObservedState": "READY"}}}'
catalogsource.operators.coreos.com/catalog patched

wait $ kubectl $CLUSTER get subscriptions.operators.coreos.com -o jsonpath='{range .items[*]}{.metadata.name} {.spec.channel} {.spec.installPlanApproval}{"\n"}{end}'
quay stable Manual

wait $ kubectl $CLUSTER get operatorgroups -o name | wc -l
1

# OLM finds the version, and waits for an approval.
$ kubectl $CLUSTER patch subscriptions.operators.coreos.com quay --subresource=status --type=merge -p '{"status": {"currentCSV": "quay.v1"}}'
subscription.operators.coreos.com/quay patched

$ kubectl $CLUSTER apply -f plan.yaml
installplan.operators.coreos.com/install-1 created

$ kubectl $CLUSTER patch installplan install-1 --subresource=status --type=merge -p '{"status": {"phase": "RequiresApproval"}}'
installplan.operators.coreos.com/install-1 patched

wait $ kubectl $CLUSTER get installplan install-1 -o jsonpath='{.spec.approved}{"\n"}'
true

$ kubectl patch policy operators --type=json -p '[{"op": "replace", "path": "/spec/policy-templates/0/objectDefinition/spec/complianceType", "value": "mustnothave"}]'
policy.policy.open-cluster-management.io/operators patched

wait $ kubectl $CLUSTER get subscriptions.operators.coreos.com,operatorgroups -o name | wc -l
0

wait $ drover get policies
NAMESPACE   NAME        ACTION    COMPLIANCE   CLUSTERS   NOT COMPLIANT
default     operators   enforce   Compliant    1

stop up
