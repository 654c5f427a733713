#include "serving/stored_model.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace tilewright::serving {

using database::DatabaseError;

StoredModel::StoredModel(const std::string& path, database::Trust trust)
    : store_(database::Store::open(path, database::Mode::ReadOnly, std::chrono::seconds(5),
                                   std::move(trust))),
      graph_(graph::parse_graph(part(kProgramPart))) {
  graph::verify(graph_);
}

const std::string& StoredModel::data(const graph::Value& constant) {
  if (constant.data != nullptr) return *constant.data;
  if (hash_ == constant.hash) return data_;
  hash_.clear();
  data_ = part(constant.hash);
  if (static_cast<int64_t>(data_.size()) != constant.bytes()) {
    throw DatabaseError(DatabaseError::Kind::Damaged,
                        fmt::format("constant \"{}\" has {} bytes; its type needs {}",
                                    constant.name, data_.size(), constant.bytes()));
  }
  hash_ = constant.hash;
  return data_;
}

std::string StoredModel::part(const std::string& name) const {
  database::Lookup<std::string> found = store_.part(name);
  if (!found) throw DatabaseError(DatabaseError::Kind::Damaged, found.miss);
  return std::move(*found.value);
}

}  // namespace tilewright::serving
