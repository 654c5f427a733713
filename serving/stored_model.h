// A model file as it is read: its program, and its constants one at a time.
#pragma once

#include <string>

#include "database/store.h"
#include "graph/graph.h"

namespace tilewright::serving {

// The part of a model file that is its program.
inline constexpr const char* kProgramPart = "program";

// Constants are read when they are asked for, so that one that is packed is in memory only while it is packed.
class StoredModel {
 public:
  // Throws DatabaseError, TrustError and GraphError.
  explicit StoredModel(const std::string& path, database::Trust trust = {});

  // Larger constants come without their data.
  const graph::Graph& graph() const { return graph_; }
  // The elements of a constant, until the next call. Throws DatabaseError.
  const std::string& data(const graph::Value& constant);

 private:
  std::string part(const std::string& name) const;

  database::Store store_;
  graph::Graph graph_;
  std::string hash_, data_;  // the constant that was read last
};

}  // namespace tilewright::serving
