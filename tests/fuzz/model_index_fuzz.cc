// The index of a model file. It counts in trusted files alone, where damage may still have passed a checksum.
#include "serving/models/model_index.h"
#include "tests/fuzz/fuzz_target.h"

namespace tilewright::fuzz {
namespace {

const std::string& program() {
  static const std::string text =
      "graph \"g\"\ndim \"rows\": 1..16 as 2137\ninput \"x\": f32[2137, 16]\ninput \"b\": f32[16, "
      "8]\n"
      "\"y\": f32[2137, 8] = \"matmul:m=2137,n=8,k=16\" (A=\"x\", B=\"b\")\noutput \"y\"\n";
  return text;
}

const graph::Graph& parsed() {
  static const graph::Graph graph = graph::parse_graph(program());
  return graph;
}

}  // namespace

std::vector<std::string> seed_inputs() {
  using namespace serving;
  StoredKernel kernel;
  kernel.target = {"t", "chip", "avx2 fma", 4, "text"};
  kernel.artifact_hash = "k";
  StoredWorkload workload;
  workload.hash = "w";
  workload.canonical = parse_workload("matmul:m=1..16,n=8,k=16").canonical;
  workload.spec = parse_spec(workload.canonical);
  workload.kernels = {kernel};
  workload.targets = {kernel.target};
  workload.ranges = {
      {kernel.target, 1, false, true, {{{{"m", {1, 16}}}, kernel, {{{{"m", 4}}, 0.5}}}}}};
  const ModelIndex index = make_index(parsed(), {{workload.hash, workload}});
  return {to_text(index, parsed(), program(), {"k"}), to_text(index, parsed(), program(), {})};
}

}  // namespace tilewright::fuzz

using namespace tilewright;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::string text(fuzz::text_of(data, size));
    const serving::ModelIndex index = serving::parse_index(text, fuzz::program(), fuzz::parsed());
    fuzz::require(index.specs.size() == 1, "a spec of the program is missing");
    for (const serving::Dim& dim : index.specs[0].facts.dims) {
      const graph::Size& own = index.specs[0].sizes.at(dim.name);
      const DimSize range = graph::range_of(fuzz::parsed(), own);
      fuzz::require(dim.min <= range.min && range.max <= dim.max, "a run's size lies outside");
    }
  } catch (const Error&) {
  }
  return 0;
}
