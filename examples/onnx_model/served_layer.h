// A layer of a model by its kernel out of a database.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "database/store.h"
#include "examples/onnx_model/interpreter.h"
#include "models/onnx/layers.h"
#include "runtime/load/kernel.h"
#include "runtime/tensor/array.h"
#include "runtime/thread_pool.h"

// The state of a process between requests: the loaded kernel, its threads and workspace, and the
// weights, packed once.
class ServedLayer {
 public:
  // `constants` are the model's; those that the layer takes are packed. Throws tilewright::Error
  // that tells what would tune the layer where the database has no kernel of it.
  ServedLayer(const tilewright::onnx::Layer& layer, const tilewright::database::Store& store,
              const std::string& store_path, const std::map<std::string, Array>& constants);

  // The elements of the output, of values that the model has calculated so far.
  std::vector<double> run(const std::map<std::string, Array>& values);

  const std::string& spec() const { return spec_; }

 private:
  void make_operands(const std::map<std::string, Array>& constants);
  void fill(const std::string& operand, const std::map<std::string, Array>& values);
  void pack();
  tw_context context() { return pool_->context(workspace_.data()); }

  const tilewright::onnx::Layer& layer_;
  tilewright::Workload workload_;
  std::string spec_;
  std::unique_ptr<tilewright::Kernel> kernel_;
  std::unique_ptr<tilewright::ThreadPool> pool_;
  tilewright::Workspace workspace_;
  std::map<std::string, tilewright::HostArray> operands_;  // also packed ones
  std::vector<std::string> calculated_;                    // operands that each run fills
};
