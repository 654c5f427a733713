#include "serving/models/model_index.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>

#include "database/tables/checksum.h"
#include "graph/loops/loops.h"
#include "serving/operand.h"

namespace tilewright::serving {
namespace {

using Json = nlohmann::json;

constexpr int64_t kFormat = 1;

[[noreturn]] void refuse(const std::string& why) { throw Error(why); }

// Writes targets once and refers to them by their places.
class Writer {
 public:
  explicit Writer(const std::set<std::string>& kernels) : kernels_(kernels) {}

  bool has(const StoredKernel& kernel) const { return kernels_.contains(kernel.artifact_hash); }

  size_t target(const database::TargetIdentity& target) {
    const auto [entry, fresh] = places_.emplace(target.hash, targets.size());
    if (fresh) {
      targets.push_back(
          {target.hash, target.chip, target.features, target.cores, target.canonical});
    }
    return entry->second;
  }

  Json kernel(const StoredKernel& k) {
    return {target(k.target), k.threads,     k.sketch,        k.seconds, k.is_default,   k.offline,
            k.compared,       k.passed_over, k.artifact_hash, k.flags,   k.code_checksum};
  }

  Json ranges(const StoredRanges& ranges) {
    Json parts = Json::array();
    for (const StoredRanges::Range& range : ranges.ranges) {
      Json sizes = Json::object(), measured = Json::array();
      for (const auto& [name, size] : range.sizes) sizes[name] = {size.min, size.max};
      for (const auto& [at, seconds] : range.measured) measured.push_back({at, seconds});
      parts.push_back({sizes, kernel(range.kernel), measured});
    }
    return {target(ranges.target), ranges.threads, ranges.offline, ranges.one_order, parts};
  }

  Json workload(const StoredWorkload& w) {
    Json kernels = Json::array(), targets_of = Json::array(), all = Json::array();
    for (const StoredKernel& k : w.kernels) {
      if (has(k)) kernels.push_back(kernel(k));
    }
    for (const StoredRanges& r : w.ranges) {
      const bool whole =
          std::ranges::all_of(r.ranges, [&](const auto& range) { return has(range.kernel); });
      if (whole) all.push_back(ranges(r));
    }
    for (const auto& t : w.targets) targets_of.push_back(target(t));
    return {w.hash, w.spec.op.empty() ? "" : w.canonical, targets_of, kernels, all};
  }

  Json targets = Json::array();

 private:
  const std::set<std::string>& kernels_;
  std::map<std::string, size_t> places_;
};

Json spec_json(const NodeSpec& spec, const std::string& in_program) {
  const SpecFacts& facts = spec.facts;
  Json dims = Json::array();
  for (const Dim& d : facts.dims) {
    const graph::Size& size = spec.sizes.at(d.name);
    dims.push_back({d.name, d.min, d.max, size.number, size.powers});
  }
  return {facts.text == in_program ? "" : facts.text, facts.hash, facts.operands, dims};
}

// Reads values of the types that are expected.
class Reader {
 public:
  explicit Reader(const Json& targets) {
    for (const Json& t : rows(targets)) {
      targets_.push_back(
          {text(t, 0), text(t, 1), text(t, 2), static_cast<int>(integer(t, 3)), text(t, 4)});
    }
  }

  static const Json& at(const Json& row, size_t place) {
    if (!row.is_array() || place >= row.size()) refuse("a row is too short");
    return row[place];
  }
  static const Json& rows(const Json& value) {
    if (!value.is_array()) refuse("a list is missing");
    return value;
  }
  static int64_t integer(const Json& row, size_t place) {
    const Json& value = at(row, place);
    if (!value.is_number_integer()) refuse("a number is missing");
    return value.get<int64_t>();
  }
  static double seconds(const Json& row, size_t place) {
    const Json& value = at(row, place);
    if (!value.is_number()) refuse("a number is missing");
    return value.get<double>();
  }
  static bool truth(const Json& row, size_t place) {
    const Json& value = at(row, place);
    if (!value.is_boolean()) refuse("a truth value is missing");
    return value.get<bool>();
  }
  static const std::string& text(const Json& row, size_t place) {
    const Json& value = at(row, place);
    if (!value.is_string()) refuse("a text is missing");
    return value.get_ref<const std::string&>();
  }

  const database::TargetIdentity& target(const Json& row, size_t place) const {
    const int64_t index = integer(row, place);
    if (index < 0 || static_cast<size_t>(index) >= targets_.size()) refuse("a target is missing");
    return targets_[static_cast<size_t>(index)];
  }

  StoredKernel kernel(const Json& row, const std::string& workload) const {
    return {target(row, 0), static_cast<int>(integer(row, 1)),
            text(row, 2),   seconds(row, 3),
            truth(row, 4),  truth(row, 5),
            truth(row, 6),  text(row, 7),
            text(row, 8),   workload,
            text(row, 9),   integer(row, 10),
            nullptr};
  }

  StoredRanges ranges(const Json& row, const StoredWorkload& workload) const {
    StoredRanges made{
        target(row, 0), static_cast<int>(integer(row, 1)), truth(row, 2), truth(row, 3), {}};
    for (const Json& part : rows(at(row, 4))) {
      StoredRanges::Range range;
      const Json& sizes = at(part, 0);
      for (const auto& [name, size] : sizes.items()) {
        range.sizes[name] = {integer(size, 0), integer(size, 1)};
      }
      range.kernel = kernel(at(part, 1), workload.hash);
      for (const Json& point : rows(at(part, 2))) {
        database::Sizes measured;
        for (const auto& [name, size] : at(point, 0).items()) {
          if (!size.is_number_integer()) refuse("a number is missing");
          measured[name] = size.get<int64_t>();
        }
        for (const auto& [name, size] : range.sizes) {
          if (!measured.contains(name)) refuse("a size is missing");
        }
        range.measured.emplace_back(std::move(measured), seconds(point, 1));
      }
      made.ranges.push_back(std::move(range));
    }
    check(made, workload.spec);
    return made;
  }

  StoredWorkload workload(const Json& row) const {
    StoredWorkload w;
    w.hash = text(row, 0);
    w.canonical = text(row, 1);
    if (!w.canonical.empty()) w.spec = parse_spec(w.canonical);
    for (size_t i = 0; i < rows(at(row, 2)).size(); ++i) w.targets.push_back(target(row[2], i));
    for (const Json& k : rows(at(row, 3))) w.kernels.push_back(kernel(k, w.hash));
    for (const Json& r : rows(at(row, 4))) w.ranges.push_back(ranges(r, w));
    return w;
  }

 private:
  // Ranges have sizes of the spec alone.
  static void check(const StoredRanges& ranges, const Spec& spec) {
    const auto sizes = sizes_of(spec);
    if (ranges.ranges.empty()) refuse("a table has no ranges");
    for (const StoredRanges::Range& range : ranges.ranges) {
      for (const auto& [name, size] : range.sizes) {
        if (!sizes.contains(name)) refuse("a range is of no size of its spec");
      }
    }
  }

  std::vector<database::TargetIdentity> targets_;
};

// Whether a size can be calculated: no shape of a program is larger.
bool is_small(const graph::Graph& graph, const graph::Size& size) {
  auto most = static_cast<double>(size.number);
  for (size_t d = 0; d < graph.dims.size(); ++d) {
    for (int p = 0; p < size.powers[d]; ++p) most *= static_cast<double>(graph.dims[d].range.max);
  }
  return most <= static_cast<double>(int64_t{1} << 40);
}

NodeSpec spec_of(const Json& row, const graph::Graph& graph, const std::string& in_program) {
  NodeSpec spec;
  SpecFacts& facts = spec.facts;
  const std::string& text = Reader::text(row, 0);
  facts.text = text.empty() ? in_program : text;
  facts.hash = Reader::text(row, 1);
  const Json& operands = Reader::rows(Reader::at(row, 2));
  for (size_t i = 0; i < operands.size(); ++i) facts.operands.push_back(Reader::text(operands, i));
  for (const Json& dim : Reader::rows(Reader::at(row, 3))) {
    Dim d{Reader::text(dim, 0), Reader::integer(dim, 1), Reader::integer(dim, 2)};
    graph::Size size;
    size.number = Reader::integer(dim, 3);
    const Json& powers = Reader::rows(Reader::at(dim, 4));
    if (powers.size() > graph::kMostDims) refuse("a size has too many powers");
    for (size_t p = 0; p < powers.size(); ++p) {  // files of fewer dimensions have fewer
      const int64_t power = Reader::integer(powers, p);
      if (power < 0 || power > 32 || (power > 0 && p >= graph.dims.size())) {
        refuse("a size has no such power");
      }
      size.powers[p] = static_cast<uint8_t>(power);
    }
    if (!is_small(graph, size)) refuse(fmt::format("dimension {} is too large", d.name));
    const DimSize range = graph::range_of(graph, size);
    if (size.number < 1 || range.min < d.min || d.max < range.max) {
      refuse(fmt::format("dimension {} is not what the program says", d.name));
    }
    spec.sizes[d.name] = size;
    facts.dims.push_back(std::move(d));
  }
  if (facts.operands.empty() || facts.operands.size() > kMaxOperands ||
      facts.dims.size() > kMaxDims || spec.sizes.size() != facts.dims.size()) {
    refuse("a spec has too many operands or dimensions");
  }
  return spec;
}

// Calls `first` for each node whose spec no node before has.
template <class First>
std::map<const graph::Node*, size_t> number_specs(const graph::Graph& graph, const First& first) {
  std::unordered_map<std::string_view, size_t> known;
  std::map<const graph::Node*, size_t> numbers;
  graph::for_each_node(graph, [&](const graph::Graph& own, const graph::Node& node, double) {
    if (!node.is_workload()) return;
    const auto [entry, fresh] = known.emplace(node.spec, known.size());
    if (fresh) first(own, node);
    numbers.emplace(&node, entry->second);
  });
  return numbers;
}

}  // namespace

std::vector<SpecFacts> ModelIndex::facts() const {
  std::vector<SpecFacts> all;
  std::set<std::string_view> known;
  for (const NodeSpec& spec : specs) {
    if (known.insert(spec.facts.text).second) all.push_back(spec.facts);
  }
  return all;
}

std::map<const graph::Node*, size_t> specs_of_nodes(const graph::Graph& graph) {
  return number_specs(graph, [](const graph::Graph&, const graph::Node&) {});
}

ModelIndex make_index(const graph::Graph& graph, StoredWorkloads workloads) {
  ModelIndex index;
  index.workloads = std::move(workloads);
  number_specs(graph, [&](const graph::Graph& own, const graph::Node& node) {
    graph::RangedSpec spec = graph::ranged(own, node);
    index.specs.push_back({facts_of(spec.spec, parse_workload(spec.spec)), std::move(spec.sizes)});
  });
  return index;
}

std::string to_text(const ModelIndex& index, const graph::Graph& graph, const std::string& program,
                    const std::set<std::string>& kernels) {
  Writer writer(kernels);
  Json specs = Json::array(), workloads = Json::array();
  number_specs(graph, [&](const graph::Graph&, const graph::Node& node) {
    specs.push_back(spec_json(index.specs[specs.size()], node.spec));
  });
  for (const auto& [hash, workload] : index.workloads) {
    workloads.push_back(writer.workload(workload));
  }
  const Json made = {{"format", kFormat},
                     {"program", database::content_hash(program)},
                     {"specs", specs},
                     {"targets", writer.targets},
                     {"workloads", workloads}};
  return made.dump(-1, ' ', false, Json::error_handler_t::replace);
}

ModelIndex parse_index(const std::string& text, const std::string& program,
                       const graph::Graph& graph) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto part = [&](const char* name) -> const Json& {
    if (!json.is_object() || !json.contains(name)) refuse(fmt::format("it has no '{}'", name));
    return json[name];
  };
  if (part("format") != kFormat) refuse("it is of another format: make the file again");
  if (part("program") != database::content_hash(program)) refuse("it belongs to another program");
  const Reader reader(part("targets"));
  ModelIndex index;
  const Json& specs = Reader::rows(part("specs"));
  number_specs(graph, [&](const graph::Graph&, const graph::Node& node) {
    index.specs.push_back(spec_of(Reader::at(specs, index.specs.size()), graph, node.spec));
  });
  for (const Json& row : Reader::rows(part("workloads"))) {
    StoredWorkload workload = reader.workload(row);
    std::string hash = workload.hash;
    index.workloads.emplace(std::move(hash), std::move(workload));
  }
  return index;
}

}  // namespace tilewright::serving
