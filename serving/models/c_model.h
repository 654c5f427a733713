// Shared by the functions of the C interface for models.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "serving/c_options.h"
#include "serving/models/model.h"
#include "serving/status.h"

struct tw_model {
  tw_model(const std::string& path, const tilewright::serving::ModelOptions& options)
      : own(std::make_unique<tilewright::serving::Model>(path, options)) {}
  explicit tw_model(std::unique_ptr<tilewright::serving::Model> made) : own(std::move(made)) {}
  std::unique_ptr<tilewright::serving::Model> own;
  tilewright::serving::Model& model = *own;
};

namespace tilewright::serving {

// Throws ServingError (argument).
inline tw_model_options read_model_options(const tw_model_options* options) {
  tw_model_options read = {};
  if (options != nullptr) read = read_struct(options, "tw_model_options");
  if (read.threads >= 0) return read;
  throw ServingError(TW_ERROR_ARGUMENT,
                     "threads is " + std::to_string(read.threads) + "; expected 0 or more");
}

}  // namespace tilewright::serving
