# A cluster that does not get its new configuration done in time counts as a failure, and more failures than are allowed stop
# the rollout: the others keep what they have.

file everything.yaml
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: AddOnDeploymentConfig
    metadata: {name: config, namespace: default}
    spec: {agentInstallNamespace: hello}
    ---
    apiVersion: cluster.open-cluster-management.io/v1beta1
    kind: Placement
    metadata: {name: everywhere, namespace: default}
    spec: {}
    ---
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: ClusterManagementAddOn
    metadata: {name: helloworld}
    spec:
      supportedConfigs:
        - {group: addon.open-cluster-management.io, resource: addondeploymentconfigs}
      installStrategy:
        type: Placements
        placements:
          - name: everywhere
            namespace: default
            configs:
              - {group: addon.open-cluster-management.io, resource: addondeploymentconfigs, name: config, namespace: default}
            rolloutStrategy:
              type: Progressive
              progressive: {maxConcurrency: 1, progressDeadline: 2s}

file tolerate.json
    [{"op": "add", "path": "/spec/installStrategy/placements/0/rolloutStrategy/progressive/maxFailures", "value": 1}]

start up $ drover up --clusters 1

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set DESIRED={range .items[*]}{.metadata.namespace} {.status.configReferences[0].desiredConfig.specHash}{"\n"}{end}

set TOLD={range .status.installProgressions[*].conditions[?(@.type=="Progressing")]}{.reason} {.message}{end}

start alpha $ drover join --embedded --hub-kubeconfig .drover/hub.kubeconfig --cluster-name alpha

wait $ kubectl get csr -l open-cluster-management.io/cluster-name=alpha --no-headers
alpha-...   Pending

$ drover accept --clusters alpha --wait
...

$ drover clusterset bind global -n default
Clusterset global is bound to Namespace default

$ kubectl apply -f everything.yaml
...

wait $ kubectl get clustermanagementaddon helloworld -o jsonpath="$TOLD"
Completed selected clusters 2. configured addons 2/2 completed with no errors, 0 failed 0 timeout.

let OLD $ kubectl get managedclusteraddon -n alpha helloworld -o jsonpath='{.status.configReferences[0].desiredConfig.specHash}'

# Nobody is there to do what alpha is asked for.
kill alpha

$ kubectl patch addondeploymentconfig config --type=merge -p '{"spec":{"agentInstallNamespace":"other"}}'
addondeploymentconfig.addon.open-cluster-management.io/config patched

wait $ kubectl get clustermanagementaddon helloworld -o jsonpath="$TOLD"
Progressing ...1 timeout.

$ kubectl get managedclusteraddons -A -o jsonpath="$DESIRED" | sed -E "s/$OLD/old/; s/[0-9a-f]{64}/new/"
alpha new
cluster1 old

# One failure may be.
$ kubectl patch clustermanagementaddon helloworld --type=json --patch-file tolerate.json
clustermanagementaddon.addon.open-cluster-management.io/helloworld patched

wait $ kubectl get managedclusteraddons -A -o jsonpath="$DESIRED" | sed -E "s/$OLD/old/; s/[0-9a-f]{64}/new/"
alpha new
cluster1 new

# It is there again, and everything is done.
start again $ drover join --embedded --hub-kubeconfig .drover/hub.kubeconfig --cluster-name alpha

wait $ kubectl get clustermanagementaddon helloworld -o jsonpath="$TOLD"
Completed selected clusters 2. configured addons 2/2 completed with no errors, 0 failed 0 timeout.

stop again

stop up
