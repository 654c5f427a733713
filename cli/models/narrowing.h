// The precision that a command line of compile asks for, and which products of a model take it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/models/model_error.h"
#include "graph/precision/choice.h"
#include "runtime/thread_pool.h"

namespace tilewright::cli {

struct NarrowingArguments {
  std::string precision = "f32";
  double tolerance = 0;  // 0: the precision's own
  std::vector<std::string> in;
};
void add_narrowing(CLI::App& command, NarrowingArguments& arguments);

// No program of this precision holds the tolerance: exit code 3.
class ToleranceError : public Error {
 public:
  using Error::Error;
};

class Narrowing {
 public:
  // Computes the model in both ways, without kernels. Throws UsageError for a precision that does not exist or
  // that the target has no instructions for, and ToleranceError.
  Narrowing(const graph::Graph& model, const NarrowingArguments& arguments,
            const CommonOptions& options);

  // Gives the products of a graph of the same model their types.
  void apply(graph::Graph* graph) const;

  // Whether the file is to be compared with the model, on which inputs, and by how much it may be off.
  bool compares() const { return precision_.is_narrow() || arguments_.tolerance > 0; }
  const std::vector<graph::Sample>& samples() const { return samples_; }
  double tolerance() const;

  // Adds what was chosen to a document.
  void describe(nlohmann::ordered_json* said) const;
  // Lines for people: what was chosen, and how far the file's outputs are off.
  std::string text(const ModelError& error) const;
  // Why no file was kept, and what to try.
  std::string refusal(const ModelError& error) const;

 private:
  std::string inputs_text() const;
  std::string worst_text() const;
  std::string advice() const;

  NarrowingArguments arguments_;
  graph::Precision precision_;
  int threads_;
  std::vector<graph::Sample> samples_;
  graph::Ranges ranges_;
  graph::Choice choice_;
};

}  // namespace tilewright::cli
