#include "serving/models/stored_model.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <utility>

#include "graph/loops/loops.h"

namespace tilewright::serving {
namespace {

using database::DatabaseError;

[[noreturn]] void damaged(const std::string& why) {
  throw DatabaseError(DatabaseError::Kind::Damaged, why);
}

void require_size(const graph::Value& constant, size_t bytes) {
  if (static_cast<int64_t>(bytes) == constant.bytes()) return;
  damaged(fmt::format("constant \"{}\" has {} bytes; its type needs {}", constant.name, bytes,
                      constant.bytes()));
}

// Calls `read` on a model file, and tells in a model file's words that it cannot be read: what helps a
// database does not help it.
template <class Read>
auto in_words_of_models(const std::string& path, const Read& read) {
  using Kind = DatabaseError::Kind;
  const auto fail = [&](const std::string& what) {
    throw DatabaseError(Kind::Unreadable,
                        fmt::format("{}; 'tune-cli compile MODEL -o {}' makes one", what, path));
  };
  try {
    return read();
  } catch (const DatabaseError& e) {
    if (e.kind() == Kind::NotFound) fail(fmt::format("there is no model file '{}'", path));
    if (e.kind() == Kind::NotADatabase) fail(fmt::format("'{}' is no model file", path));
    if (e.kind() == Kind::Damaged)
      fail(fmt::format("model file '{}' is damaged or truncated", path));
    throw;
  }
}

}  // namespace

database::ServingContent model_content(const graph::Graph& graph, const std::string& target) {
  database::ServingContent content;
  const auto program = std::make_shared<const std::string>(graph::to_string(graph));
  content.parts[kProgramPart] = program;
  if (!target.empty()) content.parts[kTargetPart] = std::make_shared<const std::string>(target);
  graph::for_each_graph(graph, [&](const graph::Graph& each) {
    for (const graph::Value& v : each.values) {
      if (v.constant && !graph::is_written(v)) content.parts[graph::data_hash(*v.data)] = v.data;
    }
  });
  // Without the elements of its constants.
  const auto parsed = std::make_shared<const graph::Graph>(graph::parse_graph(*program));
  content.index_name = kIndexPart;
  content.index = [program, parsed](const database::Store& made,
                                    const std::set<std::string>& kernels) {
    const ModelIndex index = make_index(*parsed, Table::all_of(made));
    return to_text(index, *parsed, *program, kernels);
  };
  return content;
}

StoredModel::StoredModel(const std::string& path, database::Trust trust)
    : store_(in_words_of_models(path, [&] {
        return std::make_shared<const database::Store>(database::Store::open(
            path, database::Mode::ReadOnly, std::chrono::seconds(5), std::move(trust)));
      })) {
  const std::string program = part(kProgramPart);
  graph_ = graph::parse_graph(program);
  const database::Lookup<std::string> target = store_->part(kTargetPart);
  if (target) target_ = *target.value;
  if (target.miss.find("is damaged") != std::string::npos) damaged(target.miss);
  // Whoever may write a file that is not trusted would say what its kernels take.
  database::Lookup<std::string> index = {};
  if (store_->distrust().empty()) index = store_->part(kIndexPart);
  if (index.value) {
    graph::verify(graph_, graph::Specs::Known);
    try {
      index_ = parse_index(*index.value, program, graph_);
    } catch (const Error& e) {
      damaged(fmt::format("part '{}' of '{}' is damaged: {}", kIndexPart, path, e.what()));
    }
    return;
  }
  if (index.miss.find("is damaged") != std::string::npos) damaged(index.miss);
  graph::verify(graph_);
  index_ = make_index(graph_, Table::all_of(*store_));
}

StoredModel::StoredModel(graph::Graph program) : graph_(std::move(program)) {
  graph::verify(graph_);
  index_ = make_index(graph_, {});
}

const std::string& StoredModel::data(const graph::Value& constant) {
  if (constant.data != nullptr) return *constant.data;
  if (hash_ == constant.hash) return data_;
  hash_.clear();
  data_ = part(constant.hash);
  require_size(constant, data_.size());
  hash_ = constant.hash;
  return data_;
}

void StoredModel::read(const graph::Value& constant, void* place) const {
  if (constant.data != nullptr) {
    require_size(constant, constant.data->size());
    std::memcpy(place, constant.data->data(), constant.data->size());
    return;
  }
  const std::span bytes(static_cast<std::byte*>(place), static_cast<size_t>(constant.bytes()));
  const std::string miss =
      in_words_of_models(store_->path(), [&] { return store_->read_part(constant.hash, bytes); });
  if (!miss.empty()) damaged(fmt::format("constant \"{}\": {}", constant.name, miss));
}

std::string StoredModel::part(const std::string& name) const {
  database::Lookup<std::string> found =
      in_words_of_models(store_->path(), [&] { return store_->part(name); });
  if (!found) damaged(found.miss);
  return std::move(*found.value);
}

}  // namespace tilewright::serving
