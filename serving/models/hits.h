// Models without a model file: an ONNX file in memory on the kernels of a database. Nothing is compiled or written.
#pragma once

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "serving/library.h"
#include "serving/models/model.h"
#include "serving/status.h"

namespace tilewright::serving {

// A miss that knows the nodes, by the model's names for them, which stand in the way.
class MissingHits : public ServingError {
 public:
  MissingHits(const std::string& text, std::set<std::string> lacking)
      : ServingError(TW_ERROR_MISS, text), nodes(std::move(lacking)) {}
  std::set<std::string> nodes;
};

// `count` models of the file, each with memory and packed weights of its own, on kernels that are hits for `options`
// (threads, target, observer): behind all passes, or node by node
// where only that program has all its kernels. Throws FileError for bytes that are no ONNX file, ServingError
// (argument) for an input of open sizes or the target of a GPU, and MissingHits, also where no kernel would run at all.
std::vector<std::unique_ptr<Model>> models_of_hits(Library& library, std::string_view onnx,
                                                   PrepareOptions options, size_t count);

}  // namespace tilewright::serving
