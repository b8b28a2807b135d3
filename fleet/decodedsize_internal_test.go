package fleet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// message is a field of protobuf.
func message(number int, content []byte) []byte {
	out := binary.AppendUvarint(nil, uint64(number)<<3|2)
	return append(binary.AppendUvarint(out, uint64(len(content))), content...)
}

// object is an object of protobuf with its prefix.
func object(kind string, raw []byte) []byte {
	types := append(message(1, []byte("v1")), message(2, []byte(kind))...)
	return append([]byte(protobufPrefix), append(message(1, types), message(2, raw)...)...)
}

func times(n int, part []byte) []byte { return bytes.Repeat(part, n) }

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// becomes returns the estimated and the used memory of a response.
func becomes(t *testing.T, body []byte) (estimated, used int64) {
	t.Helper()
	var of sizer = &jsonSizer{}
	if bytes.HasPrefix(body, []byte(protobufPrefix)) {
		of = newProtobufSizer(false)
	}
	var total size
	for part := body; len(part) > 0; {
		n := min(len(part), 1000)
		decoded, _ := of.scan(part[:n])
		total.add(n, decoded)
		part = part[n:]
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	got, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(got)
	runtime.KeepAlive(body)
	return total.total(), int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

// hostileBodies are responses of about half a megabyte that become as large as possible.
func hostileBodies() map[string][]byte {
	const n = 1 << 18
	item := func(content []byte) []byte { return message(2, content) }
	meta := func(content []byte) []byte { return item(message(1, content)) }
	list := func(parts ...[]byte) []byte { return object("NodeList", join(parts...)) }
	text := func(format, of string, n int) []byte {
		return fmt.Appendf(nil, `{"kind":"NodeList","apiVersion":"v1","items":[`+format+`]}`,
			strings.TrimSuffix(strings.Repeat(of+",", n), ","))
	}
	entry := message(11, join(message(1, []byte("abc")), message(2, nil)))
	short := message(1, []byte("1234567"))
	group := []byte{13<<3 | 3, 7 << 3, 1, 13<<3 | 4}
	return map[string][]byte{
		"items":             list(times(n/4, item(nil))),
		"owner references":  list(meta(times(n, message(13, nil)))),
		"managed fields":    list(meta(times(n, message(17, nil)))),
		"finalizers":        list(meta(times(n, message(14, nil)))),
		"conditions":        list(item(message(3, times(n, message(4, nil))))),
		"short conditions":  list(item(message(3, times(n/8, message(4, short))))),
		"images":            list(item(message(3, times(n, message(8, nil))))),
		"names of images":   list(item(message(3, message(8, times(n, message(1, nil)))))),
		"equal labels":      list(meta(times(n/8, entry))),
		"taints in a group": list(item(join(group, message(2, times(n, message(5, nil)))))),
		"json items":        text("%s", "{}", n/4),
		"json nulls":        text("%s", "null", n/4),
		"json finalizers":   text(`{"metadata":{"finalizers":[%s]}}`, `""`, n),
		"json references":   text(`{"metadata":{"ownerReferences":[%s]}}`, `{}`, n),
		"json conditions":   text(`{"status":{"conditions":[%s]}}`, `null`, n),
		"json equal keys":   text(`{"metadata":{"labels":{%s}}}`, `"":""`, n),
	}
}

func TestSizer_ResponseBecomesLarge_IsEstimated(t *testing.T) {
	for name, body := range hostileBodies() {
		t.Run(name, func(t *testing.T) {
			estimated, used := becomes(t, body)
			t.Logf("received %d, estimated %d, used %d: %.1f times the estimate", len(body),
				estimated, used, float64(used)/float64(estimated))
			if used > 4*estimated {
				t.Errorf("the response becomes %d bytes, and %d are estimated", used, estimated)
			}
		})
	}
}

// The decoder of JSON replaces each byte that is no valid UTF-8 by three.
func TestSizer_TextIsInvalid_CountsAsLongAsItBecomes(t *testing.T) {
	for name, invalid := range map[string]string{
		"no UTF-8": "\xff", "the rest of a character": "\x80", "a surrogate": "\xed\xa0\x80",
		"a part of a character": "\xf0\x9f\x99",
	} {
		body := fmt.Appendf(nil, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"%s"}}`,
			strings.Repeat(invalid, 1<<20))
		estimated, used := becomes(t, body)
		if used > estimated+estimated/4 {
			t.Errorf("%s: %d bytes become %d bytes, and %d are estimated", name, len(body), used,
				estimated)
		}
	}
}

// The decoder of a quantity computes with as many digits as its exponent says. The time of digits
// that are written out grows with their square.
func TestSizer_QuantityTakesLong_CountsAsMuchAsItTakes(t *testing.T) {
	node := func(quantity string) []byte {
		entry := join(message(1, []byte("cpu")), message(2, message(1, []byte(quantity))))
		return object("NodeList", message(2, message(3, message(1, entry))))
	}
	text := func(quantity string) []byte {
		return fmt.Appendf(nil, `{"kind":"NodeList","apiVersion":"v1",`+
			`"items":[{"status":{"capacity":{"cpu":%s}}}]}`, quantity)
	}
	digits := strings.Repeat("7", 1_000_000)
	for name, test := range map[string]struct {
		body []byte
		min  int64
	}{
		"protobuf":                 {node("1e-1000000"), 900_000},
		"protobuf, spaces":         {node(" 1E-01000000"), 900_000},
		"JSON, a string":           {text(`"1e-1000000"`), 900_000},
		"JSON, a number":           {text(`1e-1000000`), 900_000},
		"JSON, spaces":             {text(`"  -1.5E-1000000 "`), 900_000},
		"protobuf, hours":          {node("1e-2000000000"), 1 << 36},
		"JSON, more than a number": {text(`"1e-99999999999999999999999999"`), 1 << 50},
		// Half a second.
		"protobuf, many digits": {node(digits), 7_000_000},
		"protobuf, a fraction":  {node("-0." + digits + "e3"), 7_000_000},
		"protobuf, a suffix":    {node(digits + "Ki"), 7_000_000},
		"protobuf, exa":         {node(digits + "Ei"), 7_000_000},
		"JSON, many digits":     {text(digits), 7_000_000},
		"JSON, digits, spaces":  {text(`" ` + digits + ` "`), 7_000_000},
	} {
		var of sizer = &jsonSizer{}
		if bytes.HasPrefix(test.body, []byte(protobufPrefix)) {
			of = newProtobufSizer(false)
		}
		if size, _ := of.scan(test.body); size < test.min {
			t.Errorf("%s counts as %d bytes, want at least %d", name, size, test.min)
		}
	}
	for name, body := range map[string][]byte{
		"protobuf": node("16Gi"), "JSON": text(`"1e3"`), "JSON, a name": text(`"node1e999999999"`),
		"a UID":         node("12345678-1234-4234-8234-1e1234567890"),
		"a UID in JSON": text(`"12345678-1234-4234-8234-1e1234567890"`),
		"a long text":   text(`"` + digits + `a"`),
	} {
		var of sizer = &jsonSizer{}
		if bytes.HasPrefix(body, []byte(protobufPrefix)) {
			of = newProtobufSizer(false)
		}
		if size, _ := of.scan(body); size > 10_000 {
			t.Errorf("%s counts as %d bytes", name, size)
		}
	}
}

// ordinaryNode is like the node of a kubelet.
func ordinaryNode(i int) corev1.Node {
	name := fmt.Sprintf("worker-%d.cluster.example.com", i)
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: "b3c5b0a4-6f0e-4a53-9a10-0f7c1f7b8a11", ResourceVersion: "1234567",
		Labels: map[string]string{}, Annotations: map[string]string{},
		CreationTimestamp: metav1.Unix(1_700_000_000, 0),
	}}
	for _, key := range []string{
		"arch", "os", "hostname", "instance-type", "zone", "region", "role", "pool",
	} {
		node.Labels["topology.kubernetes.io/"+key] = "value-of-" + key
		node.Annotations["node.alpha.kubernetes.io/"+key] = strings.Repeat("value", 10)
	}
	managed := strings.Repeat(`"f:kubernetes.io/name":{".":{},"f:value":{}},`, 30)
	for _, manager := range []string{"kubelet", "kubelet-status", "controller-manager"} {
		node.ManagedFields = append(node.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1("{" + strings.TrimSuffix(managed, ",") + "}"),
		})
	}
	node.Spec.ProviderID = "openstack:///b3c5b0a4-6f0e-4a53-9a10-0f7c1f7b8a11"
	node.Status.Capacity = corev1.ResourceList{}
	for _, name := range []string{"cpu", "memory", "pods", "ephemeral-storage", "hugepages-2Mi"} {
		node.Status.Capacity[corev1.ResourceName(name)] = resource.MustParse("16Gi")
	}
	node.Status.Allocatable = node.Status.Capacity
	for _, kind := range []string{"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"} {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: corev1.NodeConditionType(kind), Status: "False", Reason: "KubeletHasNo" + kind,
			Message: "kubelet has no " + kind, LastHeartbeatTime: metav1.Unix(1_700_000_000, 0),
		})
	}
	for i := range 40 {
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{
			Names: []string{
				fmt.Sprintf("registry.example.com/library/image-%d@sha256:%064d", i, i),
				fmt.Sprintf("registry.example.com/library/image-%d:v1.2.3", i),
			},
			SizeBytes: 12345678,
		})
	}
	return node
}

// Clients request the nodes in protobuf. JSON is for kinds that have no protobuf.
func TestSizer_OrdinaryNodes_CountByTheirBytes(t *testing.T) {
	list := &corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}}
	for i := range 100 {
		list.Items = append(list.Items, ordinaryNode(i))
	}
	text, err := apiruntime.Encode(scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion), list)
	if err != nil {
		t.Fatal(err)
	}
	var binary bytes.Buffer
	encoder := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	if err := encoder.Encode(list, &binary); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string][]byte{"JSON": text, "protobuf": binary.Bytes()} {
		estimated, used := becomes(t, body)
		t.Logf("%s: received %d, estimated %d, used %d", name, len(body), estimated, used)
		limit := int64(len(body))
		if name == "JSON" {
			limit *= 3
		}
		if estimated > limit {
			t.Errorf("%s: %d bytes count as %d", name, len(body), estimated)
		}
	}
}

func FuzzSizer(f *testing.F) {
	for _, body := range hostileBodies() {
		f.Add(body[:min(len(body), 200)], 7, true)
	}
	f.Fuzz(func(t *testing.T, body []byte, part int, isWatch bool) {
		part = max(1, part%100)
		for _, make := range []func() sizer{
			func() sizer { return &jsonSizer{} },
			func() sizer { return newProtobufSizer(isWatch) },
		} {
			whole, _ := make().scan(body)
			inParts := make()
			var sum int64
			for rest := body; len(rest) > 0; {
				n := min(part, len(rest))
				size, _ := inParts.scan(rest[:n])
				if size < 0 {
					t.Fatalf("the size is %d", size)
				}
				sum += size
				rest = rest[n:]
			}
			if sum != whole {
				t.Errorf("the parts have %d bytes, the whole %d", sum, whole)
			}
		}
	})
}
