// The oracle of lang/gotemplate: what Go's text/template, sprig and Helm themselves make of the corpus.
//
// It reads one case in JSON from each line of its input and writes the case with its answer. A case has a mode:
// "go" and "sprig" run a template with data, "helm" puts it into a chart of its own, "chart" renders a chart's files, and
// "functions" names all functions that a chart may call beside Go's own.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

type testCase struct {
	Mode     string            `json:"mode"`
	Template string            `json:"template,omitempty"`
	Data     any               `json:"data,omitempty"`
	Missing  string            `json:"missing,omitempty"`
	Files    map[string]string `json:"files,omitempty"`
	Strict   bool              `json:"strict,omitempty"`
	// Loose: the words of the error are a library's own, only that there is one counts.
	Loose  bool              `json:"loose,omitempty"`
	Output *string           `json:"output,omitempty"`
	Made   map[string]string `json:"made,omitempty"`
	Error  string            `json:"error,omitempty"`
}

func run(it *testCase) {
	it.Output, it.Made, it.Error = nil, nil, ""
	if err := answer(it); err != nil {
		it.Output, it.Made = nil, nil
		it.Error = err.Error()
	}
}

func answer(it *testCase) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	switch it.Mode {
	case "go", "sprig":
		t := template.New("t")
		if it.Mode == "sprig" {
			t = t.Funcs(sprig.TxtFuncMap())
		}
		if it.Missing != "" {
			t = t.Option("missingkey=" + it.Missing)
		}
		if t, err = t.Parse(it.Template); err != nil {
			return err
		}
		var out bytes.Buffer
		if err = t.Execute(&out, it.Data); err != nil {
			return err
		}
		text := out.String()
		it.Output = &text
		return nil
	case "helm":
		values, err := json.Marshal(it.Data)
		if err != nil {
			return err
		}
		if it.Data == nil {
			values = []byte("{}")
		}
		made, err := render(map[string]string{
			"Chart.yaml":       "apiVersion: v2\nname: c\nversion: 0.1.0\nappVersion: v9\n",
			"values.yaml":      string(values),
			"files/a.txt":      "one\ntwo\n",
			"files/b.conf":     "k=v",
			"templates/t.yaml": it.Template,
		}, nil, it.Strict)
		if err != nil {
			return err
		}
		text := made["c/templates/t.yaml"]
		it.Output = &text
		return nil
	case "functions":
		it.Made, err = map[string]string{"helm": strings.Join(functions(), " ")}, nil
		return err
	case "chart":
		values, _ := it.Data.(map[string]any)
		it.Made, err = render(it.Files, values, it.Strict)
		return err
	}
	return fmt.Errorf("no such mode: %q", it.Mode)
}

// Helm does not say what it adds to sprig's functions and takes away, but its parser knows.
func functions() []string {
	candidates := []string{
		"fromJson", "fromJsonArray", "fromToml", "fromYaml", "fromYamlArray", "include", "lookup", "required", "toJson", "toToml",
		"toYaml", "toYamlPretty", "tpl",
	}
	for name := range sprig.TxtFuncMap() {
		candidates = append(candidates, name)
	}
	sort.Strings(candidates)
	var known []string
	for _, name := range slices.Compact(candidates) {
		_, err := render(map[string]string{
			"Chart.yaml":       "apiVersion: v2\nname: c\nversion: 0.1.0\n",
			"templates/t.yaml": "{{ if false }}{{ " + name + " }}{{ end }}",
		}, nil, false)
		if err == nil || !strings.Contains(err.Error(), "not defined") {
			known = append(known, name)
		}
	}
	return known
}

func render(files map[string]string, values map[string]any, strict bool) (map[string]string, error) {
	var buffered []*loader.BufferedFile
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		buffered = append(buffered, &loader.BufferedFile{Name: name, Data: []byte(files[name])})
	}
	chart, err := loader.LoadFiles(buffered)
	if err != nil {
		return nil, err
	}
	if values == nil {
		values = map[string]any{}
	}
	if err := chartutil.ProcessDependenciesWithMerge(chart, values); err != nil {
		return nil, err
	}
	capabilities := &chartutil.Capabilities{
		KubeVersion: chartutil.KubeVersion{Version: "v1.31.2", Major: "1", Minor: "31"},
		APIVersions: chartutil.VersionSet{"v1", "apps/v1", "batch/v1"},
	}
	capabilities.HelmVersion.Version = "v3.21.4"
	release := chartutil.ReleaseOptions{Name: "rel", Namespace: "ns", Revision: 1, IsInstall: true}
	top, err := chartutil.ToRenderValues(chart, values, release, capabilities)
	if err != nil {
		return nil, err
	}
	made, err := engine.Engine{Strict: strict}.Render(chart, top)
	if err != nil {
		return nil, err
	}
	return made, nil
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for in.Scan() {
		if strings.TrimSpace(in.Text()) == "" {
			continue
		}
		var it testCase
		if err := json.Unmarshal(in.Bytes(), &it); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		// A template may change its data; the answer goes beside the data that was given.
		var answered testCase
		if err := json.Unmarshal(in.Bytes(), &answered); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		run(&answered)
		it.Output, it.Made, it.Error = answered.Output, answered.Made, answered.Error
		if err := out.Encode(&it); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
