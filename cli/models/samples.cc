#include "cli/models/samples.h"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "cli/run/model_tensors.h"
#include "cli/run/run_inputs.h"
#include "graph/sizes.h"
#include "runtime/error.h"
#include "runtime/tensor/npy.h"

namespace tilewright::cli {
namespace {

using FileNames = std::vector<std::string>;

std::string names_of(const graph::Graph& graph) {
  std::string names;
  for (size_t i : graph.inputs) names += (names.empty() ? "" : ", ") + graph.values[i].name;
  return names;
}

graph::Bytes bytes_of(const HostArray& array) {
  return std::make_shared<const std::string>(static_cast<const char*>(array.data()),
                                             static_cast<size_t>(array.bytes()));
}

// The files of each input. Throws UsageError where one has more of them than another.
std::map<std::string, FileNames> files_by_input(const graph::Graph& graph,
                                                const std::vector<std::string>& in) {
  std::map<std::string, FileNames> files;
  for (size_t i : graph.inputs) files[graph.values[i].name];
  for (const std::string& text : in) {
    auto [name, path] = named_file(text, "--in", "NAME=FILE.npy");
    const auto place = files.find(name);
    if (place == files.end()) {
      throw UsageError(fmt::format("--in: no '{}'; the model has {}", name, names_of(graph)));
    }
    place->second.push_back(path);
  }
  for (const auto& [name, own] : files) {
    if (own.size() == files.begin()->second.size()) continue;
    throw UsageError(
        fmt::format("--in: input '{}' has {} files and '{}' has {}; expected as many of each", name,
                    own.size(), files.begin()->first, files.begin()->second.size()));
  }
  return files;
}

// The sizes that the shape of an input says. Throws UsageError for a shape that the input does not take.
void note_sizes(const graph::Graph& graph, const graph::Value& v, const NpyArray& array,
                const std::string& path, std::map<std::string, int64_t>* sizes) {
  const auto refuse = [&] {
    throw UsageError(fmt::format("--in {}={}: it has the shape {}; the model takes {}", v.name,
                                 path, describe_shape(array.shape), graph::type_text(v)));
  };
  if (array.shape.size() != v.shape.size()) refuse();
  for (size_t axis = 0; axis < v.shape.size(); ++axis) {
    const graph::Size size = graph::size_of(graph, v.shape[axis]);
    for (size_t d = 0; d < graph.dims.size(); ++d) {
      graph::Size alone;
      alone.number = size.number;
      alone.powers[d] = 1;
      if (size == alone) sizes->emplace(graph.dims[d].name, array.shape[axis] / size.number);
    }
  }
}

graph::Sample sample_of(const graph::Graph& graph, const std::map<std::string, FileNames>& files,
                        size_t place) {
  graph::Sample sample;
  std::map<std::string, NpyArray> arrays;
  for (size_t i : graph.inputs) {
    const graph::Value& v = graph.values[i];
    const std::string& path = files.at(v.name)[place];
    note_sizes(graph, v, arrays[v.name] = read_npy(path), path, &sample.sizes);
  }
  const graph::Graph fixed = graph.dims.empty() ? graph : graph::at_sizes(graph, sample.sizes);
  for (size_t i : fixed.inputs) {
    const graph::Value& v = fixed.values[i];
    HostArray array(v.name, v.elem, v.shape);
    assign_input(&array, arrays.at(v.name), files.at(v.name)[place]);
    sample.inputs[v.name] = bytes_of(array);
  }
  return sample;
}

graph::Sample random_sample(const graph::Graph& graph, std::map<std::string, int64_t> sizes) {
  const graph::Graph fixed = graph.dims.empty() ? graph : graph::at_sizes(graph, sizes);
  graph::Sample sample{{}, std::move(sizes)};
  for (size_t i : fixed.inputs) {
    HostArray array(fixed.values[i].name, fixed.values[i].elem, fixed.values[i].shape);
    fill_randomly(&array);
    sample.inputs[array.name()] = bytes_of(array);
  }
  return sample;
}

}  // namespace

std::vector<graph::Sample> read_samples(const graph::Graph& graph,
                                        const std::vector<std::string>& in) {
  const std::map<std::string, FileNames> files = files_by_input(graph, in);
  std::vector<graph::Sample> samples;
  for (size_t place = 0; place < files.begin()->second.size(); ++place) {
    samples.push_back(sample_of(graph, files, place));
  }
  return samples;
}

std::vector<graph::Sample> random_samples(const graph::Graph& graph) {
  std::map<std::string, int64_t> largest, least;
  for (const graph::Dim& d : graph.dims) {
    largest[d.name] = d.range.max;
    least[d.name] = d.range.min;
  }
  std::vector<graph::Sample> samples = {random_sample(graph, largest)};
  if (!graph.dims.empty()) samples.push_back(random_sample(graph, least));
  return samples;
}

}  // namespace tilewright::cli
