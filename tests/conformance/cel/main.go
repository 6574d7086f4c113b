// The oracle of lang/cel: what Kubernetes' own CEL makes of expressions.
//
// It reads one case in JSON from each line of its input and writes the case with its answer: the value, or why there is none
// and whether that was said before the expression ran.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
)

type testCase struct {
	Expression string `json:"expression"`
	Object     any    `json:"object,omitempty"`
	Value      string `json:"value,omitempty"`
	Error      string `json:"error,omitempty"`
	// Refused: the error was told when the expression was read.
	Refused bool `json:"refused,omitempty"`
}

var env = func() *cel.Env {
	set := environment.MustBaseEnvSet(version.MajorMinor(1, 36))
	env, err := set.NewExpressionsEnv().Extend(
		cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType))
	if err != nil {
		panic(err)
	}
	return env
}()

func run(it *testCase) {
	it.Value, it.Error, it.Refused = "", "", false
	defer func() {
		if r := recover(); r != nil {
			it.Error = fmt.Sprintf("panic: %v", r)
		}
	}()
	ast, issues := env.Compile(it.Expression)
	if issues.Err() != nil {
		it.Error, it.Refused = issues.Err().Error(), true
		return
	}
	program, err := env.Program(ast)
	if err != nil {
		it.Error = err.Error()
		return
	}
	value, _, err := program.Eval(map[string]any{"object": plain(it.Object), "oldObject": nil})
	if err != nil {
		it.Error = err.Error()
		return
	}
	it.Value = show(value)
}

// JSON's whole numbers are ints, as in unstructured objects.
func plain(it any) any {
	switch it := it.(type) {
	case json.Number:
		if n, err := it.Int64(); err == nil {
			return n
		}
		f, _ := it.Float64()
		return f
	case []any:
		made := make([]any, len(it))
		for i := range it {
			made[i] = plain(it[i])
		}
		return made
	case map[string]any:
		made := map[string]any{}
		for k, v := range it {
			made[k] = plain(v)
		}
		return made
	}
	return it
}

func show(value ref.Val) string {
	switch it := value.(type) {
	case types.Bool:
		return fmt.Sprint(bool(it))
	case types.Int:
		return strconv.FormatInt(int64(it), 10)
	case types.Uint:
		return strconv.FormatUint(uint64(it), 10) + "u"
	case types.Double:
		f := float64(it)
		if math.IsNaN(f) {
			return "NaN"
		}
		return fmt.Sprintf("double %016x", math.Float64bits(f))
	case types.String:
		return quote(string(it))
	case types.Bytes:
		return "b" + hex.EncodeToString([]byte(it))
	case types.Null:
		return "null"
	case types.Duration:
		return fmt.Sprintf("duration %d.%09d", int64(it.Duration/time.Second), int64(it.Duration%time.Second))
	case types.Timestamp:
		return fmt.Sprintf("timestamp %d.%09d", it.Unix(), it.Nanosecond())
	case *types.Optional:
		if !it.HasValue() {
			return "optional.none"
		}
		return "optional(" + show(it.GetValue()) + ")"
	case ref.Type:
		return "type"
	case traits.Mapper:
		var entries []string
		for i := it.Iterator(); i.HasNext() == types.True; {
			k := i.Next()
			entries = append(entries, show(k)+":"+show(it.Get(k)))
		}
		sort.Strings(entries)
		return "{" + strings.Join(entries, ",") + "}"
	case traits.Lister:
		var items []string
		for i := it.Iterator(); i.HasNext() == types.True; {
			items = append(items, show(i.Next()))
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	return "another"
}

func quote(it string) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(it)
	return strings.TrimSuffix(out.String(), "\n")
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for in.Scan() {
		var it testCase
		decoder := json.NewDecoder(strings.NewReader(in.Text()))
		decoder.UseNumber()
		if err := decoder.Decode(&it); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		run(&it)
		if err := encoder.Encode(it); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if err := in.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
