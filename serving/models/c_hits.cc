// In a file of its own: libtilewright.so drops what only this function reaches.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serving/fork.h"
#include "serving/models/c_model.h"
#include "serving/models/hits.h"
#include "serving/models/hits_interface.h"

namespace serving = tilewright::serving;

extern "C" {

tw_status tw_model_of_hits(tw_library* library, const void* onnx, size_t bytes,
                           const tw_model_options* options,
                           void (*missing)(void* user, const char* node), void* user, size_t count,
                           tw_model** models) noexcept {
  return serving::guarded([&] {
    serving::require(library, "library");
    serving::require(onnx, "onnx");
    serving::require(models, "models");
    const serving::NoFork no_fork;
    const tw_model_options read = serving::read_model_options(options);
    if (read.open != nullptr || read.states_of != nullptr) {
      throw serving::ServingError(
          TW_ERROR_ARGUMENT,
          "options.open and options.states_of are of model files; expected null");
    }
    serving::PrepareOptions own;
    own.threads = read.threads;
    if (read.target != nullptr) own.target = read.target;
    own.device = read.device;
    own.observer = library->observer;
    own.alignment = tilewright::graph::kValueAlignment;
    try {
      std::vector<std::unique_ptr<tw_model>> made;
      for (std::unique_ptr<serving::Model>& model : serving::models_of_hits(
               library->library, {static_cast<const char*>(onnx), bytes}, std::move(own), count)) {
        made.push_back(std::make_unique<tw_model>(std::move(model)));
      }
      for (std::unique_ptr<tw_model>& model : made) *models++ = model.release();
    } catch (const serving::MissingHits& e) {
      const serving::MayFork may_fork;
      for (const std::string& node : e.nodes) {
        if (missing != nullptr) missing(user, node.c_str());
      }
      throw;
    }
  });
}

}  // extern "C"
