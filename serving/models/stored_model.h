// A model file as it is read: its program, its index, and its constants one at a time.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "database/store.h"
#include "graph/graph.h"
#include "runtime/load/kernel.h"
#include "serving/models/model_index.h"

namespace tilewright::serving {

// The part of a model file that is its program.
inline constexpr const char* kProgramPart = "program";
// The part that names the target of its kernels. A file without it is for CPUs.
inline constexpr const char* kTargetPart = "target";

// The parts of a model file besides the kernels of its workloads: the program, the constants, and the index, which
// is made while the file is written. Constants have their data. `target` names a GPU's; "": CPUs.
database::ServingContent model_content(const graph::Graph& graph, const std::string& target = "");

// Constants are read when they are asked for, so that one that is packed is in memory only while it is packed.
class StoredModel {
 public:
  // Throws DatabaseError, TrustError and GraphError.
  explicit StoredModel(const std::string& path, database::Trust trust = {});
  // A program in memory, whose constants have their data, without kernels. Throws GraphError.
  explicit StoredModel(graph::Graph program);

  // Larger constants come without their data. What specs say was checked when the file was written, or else here
  // where the file is not trusted or has no index.
  const graph::Graph& graph() const { return graph_; }
  const ModelIndex& index() const { return index_; }
  // The target that the file was compiled for: "cuda:sm_90a", or "native" where it is for CPUs.
  const std::string& target() const { return target_; }
  // Why others may decide the file's content; empty when it is trusted.
  std::string distrust() const { return store_ == nullptr ? "" : store_->distrust(); }
  // Kernels of the file, which are read when they are used. Takes the workloads out of the index.
  Table take_table() { return Table(store_, std::move(index_.workloads)); }
  // The elements of a constant, until the next call. Throws DatabaseError.
  const std::string& data(const graph::Value& constant);
  // The same, put into a place of as many bytes.
  void read(const graph::Value& constant, void* place) const;

 private:
  std::string part(const std::string& name) const;

  std::shared_ptr<const database::Store> store_;  // null: a program in memory
  graph::Graph graph_;
  ModelIndex index_;
  std::string target_ = "native";
  std::string hash_, data_;  // the constant that was read last
};

}  // namespace tilewright::serving
