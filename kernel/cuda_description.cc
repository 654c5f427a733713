#include "kernel/cuda_description.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "base/error.h"
#include "kernel/kernel_json.h"

namespace tilewright {
namespace {

using kernel_json::fail;
using kernel_json::field;
using kernel_json::size_field;
using nlohmann::json;

constexpr int kVersion = 1;
constexpr const char* kKind = "cuda";

// Sizes of launches: numbers, dimensions by name, and [operator, a, b] for the integer operators.
constexpr BinaryOp kOperators[] = {BinaryOp::Add,      BinaryOp::Sub,      BinaryOp::Mul,
                                   BinaryOp::FloorDiv, BinaryOp::FloorMod, BinaryOp::Min,
                                   BinaryOp::Max};

json of_size(const Expr& e) {
  if (auto number = as_int(e)) return *number;
  if (auto* v = e.as<VarNode>()) return v->name;
  auto* b = e.as<BinaryNode>();
  TW_ASSERT(b, "the size of a launch is no expression of dimensions");
  return json::array({std::string(name_of(b->op)), of_size(b->a), of_size(b->b)});
}

Expr size_from(const json& j, const std::vector<DimVar>& dims, const std::string& where) {
  if (j.is_number_integer()) return Expr(j.get<int64_t>());
  if (j.is_string()) {
    for (const DimVar& d : dims) {
      if (d.var.name() == j.get<std::string>()) return d.var;
    }
    fail(where, "there is no dimension '" + j.get<std::string>() + "'");
  }
  if (j.is_array() && j.size() == 3 && j[0].is_string()) {
    for (BinaryOp op : kOperators) {
      if (name_of(op) == j[0].get<std::string>()) {
        return binary(op, size_from(j[1], dims, where), size_from(j[2], dims, where));
      }
    }
  }
  fail(where, "expected a size, got " + j.dump());
}

json array_field(const json& object, const std::string& where, const char* key) {
  json list = field<json>(object, where, key);
  if (!list.is_array()) fail(where, std::string("key '") + key + "' is no array");
  return list;
}

constexpr const char* kSwizzles[] = {"none", "32B", "64B", "128B"};  // by TensorSwizzle

// The number of image dimensions, without channels and the number of the image.
size_t image_rank(const TensorMap& map) { return map.dims.size() - 2; }

json of_tensor_map(const TensorMap& map) {
  json dims = json::array(), strides = json::array();
  for (const Expr& extent : map.dims) dims.push_back(of_size(extent));
  for (const Expr& stride : map.strides) strides.push_back(of_size(stride));
  json j = {{"buffer", map.buffer}, {"elem", to_string(map.elem)},
            {"dims", dims},         {"strides", strides},
            {"box", map.box},       {"swizzle", kSwizzles[static_cast<size_t>(map.swizzle)]}};
  if (map.pixels) {
    auto own = [&](const std::array<int64_t, kMaxPixelRank>& all) {
      return std::vector<int64_t>(all.begin(),
                                  all.begin() + static_cast<std::ptrdiff_t>(image_rank(map)));
    };
    j["pixels"] = {{"lower", own(map.pixels->lower)},
                   {"upper", own(map.pixels->upper)},
                   {"steps", own(map.pixels->steps)}};
  }
  return j;
}

PixelBox pixels_from(const json& j, const TensorMap& map, const std::string& where) {
  PixelBox pixels;
  for (const auto& [name, numbers] :
       {std::pair{"lower", &pixels.lower}, {"upper", &pixels.upper}, {"steps", &pixels.steps}}) {
    const auto given = field<std::vector<int64_t>>(j, where, name);
    if (given.size() != image_rank(map)) {
      fail(where, std::string("'") + name + "' of a map of windows has " +
                      std::to_string(given.size()) + " numbers; there is one for each of the " +
                      std::to_string(image_rank(map)) + " dimensions of an image");
    }
    std::copy(given.begin(), given.end(), numbers->begin());
  }
  return pixels;
}

// Throws for a buffer that does not exist.
void check_buffer(int buffer, const CudaSource& source, const std::string& where) {
  const size_t known = source.params.size() + source.scratch.size();
  if (buffer < 0 || static_cast<size_t>(buffer) >= known) {
    fail(where, "there is no buffer " + std::to_string(buffer));
  }
}

TensorMap tensor_map_from(const json& j, const CudaSource& source, const std::string& where) {
  TensorMap map;
  map.buffer = field<int>(j, where, "buffer");
  check_buffer(map.buffer, source, where);
  map.elem = kernel_json::elem_field(j, where);
  for (const json& extent : array_field(j, where, "dims")) {
    map.dims.push_back(size_from(extent, source.dims, where));
  }
  for (const json& stride : array_field(j, where, "strides")) {
    map.strides.push_back(size_from(stride, source.dims, where));
  }
  map.box = field<std::vector<int64_t>>(j, where, "box");
  const size_t rank = map.dims.size();
  const bool is_windows = j.contains("pixels");
  if (rank < 1 || rank > kMaxTensorRank || map.strides.size() != rank - 1 ||
      (!is_windows && map.box.size() != rank)) {
    fail(where, "a tensor map has 1 to 5 dimensions, a box of as many, and one stride fewer");
  }
  if (is_windows && (rank < 3 || map.box.size() != 2)) {
    fail(where, "a map of windows has 3 to 5 dimensions, and a box of channels and pixels");
  }
  if (is_windows) map.pixels = pixels_from(j["pixels"], map, where);
  const auto name = field<std::string>(j, where, "swizzle");
  const auto* found = std::find(std::begin(kSwizzles), std::end(kSwizzles), name);
  if (found == std::end(kSwizzles)) {
    fail(where, "the swizzle '" + name + "' is none of none, 32B, 64B and 128B");
  }
  map.swizzle = static_cast<TensorSwizzle>(found - std::begin(kSwizzles));
  return map;
}

json of_launch(const CudaLaunch& l) {
  json grid = json::array();
  for (const Expr& extent : l.grid) grid.push_back(of_size(extent));
  json j = {{"entry", l.entry},
            {"buffers", l.buffers},
            {"grid", grid},
            {"block", l.block},
            {"shared_bytes", l.shared_bytes}};
  if (l.dependent) j["dependent"] = true;
  for (const TensorMap& map : l.tensor_maps) j["tensor_maps"].push_back(of_tensor_map(map));
  return j;
}

CudaLaunch launch_from(const json& j, const CudaSource& source, const std::string& where) {
  CudaLaunch l;
  l.entry = field<std::string>(j, where, "entry");
  l.buffers = field<std::vector<int>>(j, where, "buffers");
  for (int b : l.buffers) check_buffer(b, source, where);
  json grid = array_field(j, where, "grid");
  std::vector<int> block = field<std::vector<int>>(j, where, "block");
  if (grid.size() != 3 || block.size() != 3) fail(where, "grid and block have three extents each");
  for (size_t x = 0; x < 3; ++x) {
    l.grid[x] = size_from(grid[x], source.dims, where);
    l.block[x] = block[x];
    if (block[x] < 1) fail(where, "a block has an extent of " + std::to_string(block[x]));
  }
  l.shared_bytes = size_field(j, where, "shared_bytes");
  l.dependent = j.contains("dependent") && field<bool>(j, where, "dependent");
  if (!j.contains("tensor_maps")) return l;
  for (const json& map : array_field(j, where, "tensor_maps")) {
    l.tensor_maps.push_back(tensor_map_from(map, source, where));
  }
  return l;
}

json of_packing(const KernelSource& source, const CompiledPacking& compiled) {
  return {{"code", source.code},
          {"flags", source.flags},
          {"description", json::parse(source.description.to_json())},
          {"object", to_base64(compiled.object)},
          {"processor", compiled.processor}};
}

void read_packing(const json& j, CudaDescription& d) {
  const std::string where = "packing";
  KernelSource& source = d.source.packing;
  source.code = field<std::string>(j, where, "code");
  source.flags = field<std::vector<std::string>>(j, where, "flags");
  source.description = KernelDescription::from_json(field<json>(j, where, "description").dump());
  std::optional<std::string> object = from_base64(field<std::string>(j, where, "object"));
  if (!object) fail(where, "key 'object' is no base64");
  d.packing = {std::move(*object), field<std::string>(j, where, "processor")};
  for (const KernelFunction& f : source.description.packs) {
    const std::string& made = f.params.back().name;
    bool taken = std::any_of(d.source.params.begin(), d.source.params.end(),
                             [&](const KernelParam& p) { return p.name == made; });
    if (!taken) fail(where, "it makes '" + made + "', which no kernel takes");
  }
}

json of_facts(const CudaKernelFacts& f) {
  return {
      {"registers", f.registers}, {"stack_bytes", f.stack_bytes}, {"instructions", f.instructions}};
}

std::string place(const char* list, size_t i) {
  return std::string(list) + "[" + std::to_string(i) + "]";
}

void read_memory(const json& j, CudaSource& source) {
  json params = array_field(j, "top level", "params");
  for (size_t i = 0; i < params.size(); ++i) {
    source.params.push_back(kernel_json::param(params[i], place("params", i)));
  }
  json dims = array_field(j, "top level", "dims");
  for (size_t i = 0; i < dims.size(); ++i) {
    std::string where = place("dims", i);
    source.dims.push_back({Var(field<std::string>(dims[i], where, "name")),
                           field<int64_t>(dims[i], where, "min"),
                           field<int64_t>(dims[i], where, "max")});
  }
  json scratch = array_field(j, "top level", "scratch");
  for (size_t i = 0; i < scratch.size(); ++i) {
    std::string where = place("scratch", i);
    Expr elements = size_from(field<json>(scratch[i], where, "elements"), source.dims, where);
    source.scratch.push_back({field<std::string>(scratch[i], where, "name"),
                              kernel_json::elem_field(scratch[i], where), elements});
  }
}

}  // namespace

std::string CudaDescription::to_json() const {
  json j = {{"kind", kKind}, {"version", kVersion}, {"target", source.target}};
  for (const char* list : {"params", "dims", "scratch", "launches"}) j[list] = json::array();
  for (const KernelParam& p : source.params) j["params"].push_back(kernel_json::of_param(p));
  for (const DimVar& d : source.dims) {
    j["dims"].push_back({{"name", d.var.name()}, {"min", d.min}, {"max", d.max}});
  }
  for (const CudaScratch& s : source.scratch) {
    j["scratch"].push_back(
        {{"name", s.name}, {"elem", to_string(s.elem)}, {"elements", of_size(s.elements)}});
  }
  for (const CudaLaunch& l : source.launches) j["launches"].push_back(of_launch(l));
  for (const CudaKernelFacts& f : facts) j["facts"].push_back(of_facts(f));
  if (!emulated.instance.empty()) {
    j["emulated"] = {{"instance", emulated.instance}, {"counters", emulated.counters}};
  }
  if (!source.sizes.steps.empty()) j["sizes"] = kernel_json::of_sizes(source.sizes);
  if (!source.packing.code.empty()) j["packing"] = of_packing(source.packing, packing);
  return j.dump();
}

std::string host_processor() {
#if defined(__x86_64__)
  return "x86_64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "unknown";
#endif
}

CudaDescription CudaDescription::from_json(const std::string& text) {
  json j = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (j.is_discarded()) fail("text", "not JSON");
  if (field<std::string>(j, "top level", "kind") != kKind) {
    fail("top level", "not that of a CUDA kernel");
  }
  int version = field<int>(j, "top level", "version");
  if (version != kVersion) {
    fail("top level",
         "version " + std::to_string(version) + ", this build reads " + std::to_string(kVersion));
  }
  CudaDescription d;
  d.source.target = field<std::string>(j, "top level", "target");
  read_memory(j, d.source);
  if (j.contains("sizes")) d.source.sizes = kernel_json::sizes(j["sizes"], d.source.dims.size());
  json launches = array_field(j, "top level", "launches");
  for (size_t i = 0; i < launches.size(); ++i) {
    d.source.launches.push_back(launch_from(launches[i], d.source, place("launches", i)));
  }
  if (j.contains("packing")) read_packing(field<json>(j, "top level", "packing"), d);
  if (j.contains("emulated")) {
    json emulated = field<json>(j, "top level", "emulated");
    d.emulated = {field<std::string>(emulated, "emulated", "instance"),
                  field<std::map<std::string, int64_t>>(emulated, "emulated", "counters")};
  }
  if (!j.contains("facts")) return d;
  json facts = array_field(j, "top level", "facts");
  for (size_t i = 0; i < facts.size(); ++i) {
    std::string where = place("facts", i);
    d.facts.push_back({field<int>(facts[i], where, "registers"),
                       size_field(facts[i], where, "stack_bytes"),
                       field<std::map<std::string, int>>(facts[i], where, "instructions")});
  }
  if (d.facts.size() != d.source.launches.size()) fail("facts", "one a launch is expected");
  return d;
}

}  // namespace tilewright
