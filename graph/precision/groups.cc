#include "graph/precision/groups.h"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "graph/precision/ordered.h"
#include "ir/ops/spec.h"
#include "models/weights/quantize.h"
#include "runtime/tensor/element.h"

namespace tilewright::graph {
namespace {

constexpr int64_t kLeastElements = 4096;  // of a weight that is worth unpacking

// A product of matrices with a constant weight [k, n], or [n, k] where it is turned.
struct Matrices {
  Spec spec;
  int64_t k = 0, n = 0;
  bool turned = false;
};

std::optional<Matrices> matrices_of(const Graph& graph, const Node& node) {
  if (!node.is_workload()) return std::nullopt;
  Matrices m{parse_spec(node.spec)};
  if (m.spec.op != "matmul" || m.spec.has("w.dtype") || !node.operands.contains("B")) {
    return std::nullopt;
  }
  const Value& weight = graph.values[node.operands.at("B")];
  const bool floats = m.spec.get<std::string>("dtype") == "f32" && weight.elem == ElemType::f32;
  if (weight.data == nullptr || !floats) return std::nullopt;
  if (m.spec.get<DimSize>("batch") != DimSize{1, 1}) return std::nullopt;
  m.k = m.spec.get<DimSize>("k").max;
  m.n = m.spec.get<DimSize>("n").max;
  m.turned = m.spec.get<bool>("trans_b");
  return m;
}

// The parts of a weight as values of the graph.
struct StoredParts {
  size_t codes = 0, scale = 0;
  std::optional<size_t> zero;
};

class Grouper {
 public:
  Grouper(Graph* graph, const WeightForm& form) : graph_(*graph), form_(form) {
    for (const Value& v : graph_.values) names_.insert(v.name);
  }

  Changed run(const Kept& kept) {
    Changed changed;
    for (Node& node : graph_.nodes) {
      std::optional<Matrices> m = matrices_of(graph_, node);
      const std::string name = graph_.values[node.output].name;
      if (!m || kept.contains(name)) continue;
      if (!gains(*m)) {
        ++changed.others;
        continue;
      }
      store(&node, *m);
      changed.outputs.push_back(name);
    }
    return changed;
  }

 private:
  int64_t group_of(const Matrices& m) const { return form_.group == -1 ? m.k : form_.group; }

  bool gains(const Matrices& m) const {
    return m.k * m.n >= kLeastElements && m.k % group_of(m) == 0 &&
           m.n * bits_of(form_.type) % 8 == 0;
  }

  void store(Node* node, const Matrices& m) {
    const size_t weight = node->operands.at("B");
    auto [known, fresh] = stored_.try_emplace({weight, m.turned});
    if (fresh) known->second = stored(weight, m);
    const StoredParts& parts = known->second;
    node->operands["B"] = parts.codes;
    node->operands["B.scale"] = parts.scale;
    if (parts.zero) node->operands["B.zero"] = *parts.zero;
    Spec spec = m.spec;
    spec.params["trans_b"] = false;
    std::string text = fmt::format("{},w.dtype={},w.group={},w.scale=f32", spec_to_inline(spec),
                                   to_string(form_.type), form_.group == -1 ? -1 : group_of(m));
    if (parts.zero) text += ",w.zero=" + to_string(form_.type);
    if (form_.byte_activations) text += ",a.dtype=i8";
    node->spec = spec_to_inline(parse_spec(text));
  }

  StoredParts stored(size_t weight, const Matrices& m) {
    const Value from = graph_.values[weight];
    std::vector<float> columns;
    columns.reserve(static_cast<size_t>(from.count()));
    const Shape shape = m.turned ? Shape{m.n, m.k} : Shape{m.k, m.n};
    for_each_ordered(shape, {m.turned ? size_t{0} : size_t{1}}, [&](int64_t place) {
      float element = 0;
      std::memcpy(&element, from.data->data() + place * static_cast<int64_t>(sizeof element),
                  sizeof element);
      columns.push_back(element);
    });
    const int64_t groups = m.k / group_of(m);
    const weights::RowCodes made = weights::quantize(columns, m.k, form_.type, group_of(m));
    const std::string name = from.name + "/" + to_string(form_.type);
    StoredParts parts;
    parts.codes = add_turned(name, form_.type, m.n, m.k, made.codes);
    parts.scale = add_turned(name + "/scale", ElemType::f32, m.n, groups, made.scales);
    if (!made.zeros.empty()) {
      parts.zero = add_turned(name + "/zero", form_.type, m.n, groups, made.zeros);
    }
    return parts;
  }

  // A constant [columns, rows] of these elements, which stand as [rows, columns].
  template <class T>
  size_t add_turned(const std::string& wanted, ElemType elem, int64_t rows, int64_t columns,
                    const std::vector<T>& elements) {
    auto data =
        std::make_shared<std::string>(static_cast<size_t>(bytes_for(elem, rows * columns)), '\0');
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        const T element = elements[static_cast<size_t>(r * columns + c)];
        set(elem, data->data(), c * rows + r, element);
      }
    }
    return graph_.add({fresh_name(wanted, &names_), elem, {columns, rows}, true, std::move(data)});
  }

  // Codes of floats are bits; all others are numbers.
  template <class T>
  static void set(ElemType elem, char* data, int64_t index, T element) {
    if (elem == ElemType::f32 || is_integer(elem)) {
      store_element(elem, data, index, static_cast<double>(element));
    } else {
      const auto bits = static_cast<uint8_t>(element);
      store_element(elem, data, index, load_element(elem, &bits, 0));
    }
  }

  Graph& graph_;
  const WeightForm& form_;
  std::set<std::string> names_;
  std::map<std::pair<size_t, bool>, StoredParts> stored_;
};

}  // namespace

Changed group_products(Graph* graph, const WeightForm& form, const Kept& kept) {
  return Grouper(graph, form).run(kept);
}

}  // namespace tilewright::graph
