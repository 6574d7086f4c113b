package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// What a manager of add-ons reads and writes, field by field as the definitions have it: whole lists are written back.

type ConfigReferent struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

type ConfigHash struct {
	ConfigReferent `json:",inline"`
	SpecHash       string `json:"specHash"`
}

type ConfigReference struct {
	Group                  string      `json:"group"`
	Resource               string      `json:"resource"`
	LastObservedGeneration int64       `json:"lastObservedGeneration,omitempty"`
	DesiredConfig          *ConfigHash `json:"desiredConfig"`
	LastKnownGoodConfig    *ConfigHash `json:"lastKnownGoodConfig,omitempty"`
	LastAppliedConfig      *ConfigHash `json:"lastAppliedConfig,omitempty"`
}

type Subject struct {
	User              string   `json:"user"`
	Groups            []string `json:"groups,omitempty"`
	OrganizationUnits []string `json:"organizationUnits,omitempty"`
}

type KubeClient struct {
	Subject Subject `json:"subject"`
	Driver  string  `json:"driver,omitempty"`
}

type CustomSigner struct {
	SignerName string  `json:"signerName"`
	Subject    Subject `json:"subject"`
}

type Registration struct {
	Type         string        `json:"type"`
	KubeClient   *KubeClient   `json:"kubeClient,omitempty"`
	CustomSigner *CustomSigner `json:"customSigner,omitempty"`
}

type AddOnConfig struct {
	Group          string `json:"group"`
	Resource       string `json:"resource"`
	ConfigReferent `json:",inline"`
}

type ManagedClusterAddOn struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Configs []AddOnConfig `json:"configs,omitempty"`
	} `json:"spec"`
	Status struct {
		Conditions       []metav1.Condition     `json:"conditions,omitempty"`
		SupportedConfigs []metav1.GroupResource `json:"supportedConfigs,omitempty"`
		ConfigReferences []ConfigReference      `json:"configReferences,omitempty"`
		Namespace        string                 `json:"namespace,omitempty"`
		Registrations    []Registration         `json:"registrations,omitempty"`
	} `json:"status"`
}

type InstallProgression struct {
	ConfigReferent   `json:",inline"`
	ConfigReferences []ConfigReference  `json:"configReferences,omitempty"`
	Conditions       []metav1.Condition `json:"conditions,omitempty"`
}

type ClusterManagementAddOn struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Status            struct {
		DefaultConfigReferences []ConfigReference    `json:"defaultConfigReferences,omitempty"`
		InstallProgressions     []InstallProgression `json:"installProgressions,omitempty"`
	} `json:"status"`
}

type AddOnDeploymentConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              map[string]any `json:"spec"`
}

type ManifestWork struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Workload struct {
			Manifests []runtime.RawExtension `json:"manifests"`
		} `json:"workload"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	} `json:"status"`
}

type ManagedClusterAddOnList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []ManagedClusterAddOn `json:"items"`
}

type ClusterManagementAddOnList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []ClusterManagementAddOn `json:"items"`
}

type AddOnDeploymentConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []AddOnDeploymentConfig `json:"items"`
}

type ManifestWorkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []ManifestWork `json:"items"`
}

func (it *ManagedClusterAddOn) DeepCopyObject() runtime.Object        { return copied(it) }
func (it *ManagedClusterAddOnList) DeepCopyObject() runtime.Object    { return copied(it) }
func (it *ClusterManagementAddOn) DeepCopyObject() runtime.Object     { return copied(it) }
func (it *ClusterManagementAddOnList) DeepCopyObject() runtime.Object { return copied(it) }
func (it *AddOnDeploymentConfig) DeepCopyObject() runtime.Object      { return copied(it) }
func (it *AddOnDeploymentConfigList) DeepCopyObject() runtime.Object  { return copied(it) }
func (it *ManifestWork) DeepCopyObject() runtime.Object               { return copied(it) }
func (it *ManifestWorkList) DeepCopyObject() runtime.Object           { return copied(it) }

var (
	addOnGroup = schema.GroupVersion{Group: "addon.open-cluster-management.io", Version: "v1beta1"}
	workGroup  = schema.GroupVersion{Group: "work.open-cluster-management.io", Version: "v1"}
)

func addOnScheme() *runtime.Scheme {
	own := runtime.NewScheme()
	if err := scheme.AddToScheme(own); err != nil {
		panic(err)
	}
	own.AddKnownTypes(addOnGroup, &ManagedClusterAddOn{}, &ManagedClusterAddOnList{}, &ClusterManagementAddOn{},
		&ClusterManagementAddOnList{}, &AddOnDeploymentConfig{}, &AddOnDeploymentConfigList{})
	own.AddKnownTypes(workGroup, &ManifestWork{}, &ManifestWorkList{})
	metav1.AddToGroupVersion(own, addOnGroup)
	metav1.AddToGroupVersion(own, workGroup)
	return own
}
