# An add-on that is an AddOnTemplate and nothing else. What nobody sets is refused in a sentence; once it is set the agent
# really runs, follows its configuration, and everything goes with the add-on.

file template.yaml
    apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRole
    metadata:
      name: cm-admin
    rules:
      - apiGroups: [""]
        resources: [configmaps]
        verbs: [get, list, watch]
      - apiGroups: [addon.open-cluster-management.io]
        resources: [managedclusteraddons]
        verbs: [get, list, watch]
    ---
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: AddOnTemplate
    metadata:
      name: hello-template-v1
    spec:
      addonName: hello-template
      agentSpec:
        workload:
          manifests:
            - apiVersion: v1
              kind: ServiceAccount
              metadata:
                name: hello-template-agent-sa
                namespace: default
                annotations:
                  addon.open-cluster-management.io/deletion-orphan: ""
            - apiVersion: rbac.authorization.k8s.io/v1
              kind: ClusterRoleBinding
              metadata:
                name: hello-template-agent
              roleRef:
                apiGroup: rbac.authorization.k8s.io
                kind: ClusterRole
                name: cluster-admin
              subjects:
                - kind: ServiceAccount
                  name: hello-template-agent-sa
                  namespace: default
            - apiVersion: apps/v1
              kind: Deployment
              metadata:
                name: hello-template-agent
                namespace: default
              spec:
                replicas: 1
                selector:
                  matchLabels:
                    app: hello-template-agent
                template:
                  metadata:
                    labels:
                      app: hello-template-agent
                  spec:
                    serviceAccountName: hello-template-agent-sa
                    containers:
                      - name: helloworld-agent
                        image: quay.io/open-cluster-management/addon-examples:latest
                        args:
                          - /helloworld
                          - agent
                          - --hub-kubeconfig={{HUB_KUBECONFIG}}
                          - --cluster-name={{CLUSTER_NAME}}
                          - --addon-namespace={{INSTALL_NAMESPACE}}
                          - --addon-name=hello-template
                        env:
                          - name: LOG_LEVEL
                            value: "{{LOG_LEVEL}}"
      registration:
        - type: KubeClient
          kubeClient:
            hubPermissions:
              - type: CurrentCluster
                currentCluster:
                  clusterRoleName: cm-admin
    ---
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: ClusterManagementAddOn
    metadata:
      name: hello-template
    spec:
      addOnMeta:
        displayName: hello-template
      supportedConfigs:
        - group: addon.open-cluster-management.io
          resource: addontemplates
          defaultConfig:
            name: hello-template-v1
        - group: addon.open-cluster-management.io
          resource: addondeploymentconfigs

file addon.yaml
    apiVersion: addon.open-cluster-management.io/v1beta1
    kind: ManagedClusterAddOn
    metadata:
      name: hello-template
      namespace: cluster1
    spec: {}

file config.yaml
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: AddOnDeploymentConfig
    metadata:
      name: hello-config
      namespace: cluster1
    spec:
      agentInstallNamespace: default
      customizedVariables:
        - name: LOG_LEVEL
          value: "4"

file configured.yaml
    apiVersion: addon.open-cluster-management.io/v1beta1
    kind: ManagedClusterAddOn
    metadata:
      name: hello-template
      namespace: cluster1
    spec:
      configs:
        - group: addon.open-cluster-management.io
          resource: addondeploymentconfigs
          name: hello-config
          namespace: cluster1

start up $ drover up --clusters 1

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set CLUSTER=--kubeconfig=.drover/cluster1.kubeconfig

$ kubectl apply -f template.yaml
clusterrole.rbac.authorization.k8s.io/cm-admin created
addontemplate.addon.open-cluster-management.io/hello-template-v1 created
clustermanagementaddon.addon.open-cluster-management.io/hello-template created

$ kubectl apply -f addon.yaml
managedclusteraddon.addon.open-cluster-management.io/hello-template created

# Nobody has said what LOG_LEVEL is.
wait $ kubectl -n cluster1 get managedclusteraddon hello-template -o jsonpath='{.status.conditions[?(@.type=="ManifestApplied")].message}{"\n"}'
failed to get manifest from agent interface: the template uses {{LOG_LEVEL}}, which nothing sets: known are ...

$ kubectl $CLUSTER -n default get deployments
No resources found in default namespace.

$ kubectl apply -f config.yaml
addondeploymentconfig.addon.open-cluster-management.io/hello-config created

$ kubectl apply -f configured.yaml
managedclusteraddon.addon.open-cluster-management.io/hello-template configured

$ kubectl wait -n cluster1 managedclusteraddon/hello-template --for=condition=Available --timeout=60s
managedclusteraddon.addon.open-cluster-management.io/hello-template condition met

wait $ kubectl -n cluster1 get managedclusteraddon
NAME             AVAILABLE   DEGRADED   PROGRESSING
hello-template   True                   False

$ kubectl $CLUSTER -n default get deployment hello-template-agent -o jsonpath='{range .spec.template.spec.containers[0].env[*]}{.name}={.value}{"\n"}{end}'
LOG_LEVEL=4
HUB_KUBECONFIG=/managed/hub-kubeconfig/kubeconfig
CLUSTER_NAME=cluster1
INSTALL_NAMESPACE=default

# Its agent was let in, may read ConfigMaps of its cluster's namespace, and copies them.
$ kubectl -n cluster1 get rolebinding open-cluster-management:hello-template:clusterrole:agent -o jsonpath='{.roleRef.name} {.subjects[0].name}{"\n"}'
cm-admin system:open-cluster-management:...

$ kubectl -n cluster1 create configmap greeting --from-literal=text=hello
configmap/greeting created

wait $ kubectl $CLUSTER -n default get configmap greeting -o jsonpath='{.data.text}{"\n"}'
hello

# Both versions say the same.
$ kubectl -n cluster1 get managedclusteraddons.v1alpha1.addon.open-cluster-management.io hello-template -o jsonpath='{.status.registrations[0].signerName} {.status.registrations[0].subject.user}{"\n"}'
kubernetes.io/kube-apiserver-client system:open-cluster-management:cluster:cluster1:addon:hello-template:agent:hello-template-agent

$ kubectl -n cluster1 get managedclusteraddons.v1beta1.addon.open-cluster-management.io hello-template -o jsonpath='{.status.registrations[0].type} {.status.registrations[0].kubeClient.subject.user}{"\n"}'
kubeClient system:open-cluster-management:cluster:cluster1:addon:hello-template:agent:hello-template-agent

# The configuration changes, and the agent with it.
$ kubectl -n cluster1 patch addondeploymentconfig hello-config --type=merge -p '{"spec":{"customizedVariables":[{"name":"LOG_LEVEL","value":"7"}]}}'
addondeploymentconfig.addon.open-cluster-management.io/hello-config patched

wait $ kubectl $CLUSTER -n default get deployment hello-template-agent -o jsonpath='{.spec.template.spec.containers[0].env[0].value}{"\n"}'
7

wait $ kubectl -n cluster1 get managedclusteraddon hello-template -o jsonpath='{.status.conditions[?(@.type=="Progressing")].reason}{"\n"}'
Completed

# And all of it goes, but for what was to stay.
$ kubectl -n cluster1 delete managedclusteraddon hello-template
managedclusteraddon.addon.open-cluster-management.io "hello-template" deleted...

wait $ kubectl $CLUSTER -n default get deployments
No resources found in default namespace.

wait $ kubectl $CLUSTER -n default get secrets
No resources found in default namespace.

$ kubectl $CLUSTER -n default get serviceaccount hello-template-agent-sa -o name
serviceaccount/hello-template-agent-sa

stop up
