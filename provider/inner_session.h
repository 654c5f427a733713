// A session that the provider itself starts, for a model in memory.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "provider/runtime.h"

namespace tilewright::provider {

class InnerSession {
 public:
  struct Names {
    std::vector<std::string> inputs, outputs;
  };
  // On this provider with these options, or on the CPU provider alone where there are none.
  using ProviderOptions = std::vector<std::pair<std::string, std::string>>;
  InnerSession(const Runtime& runtime, const std::string& model, int threads, Names names,
               const ProviderOptions& options = {});

  const Names& names() const { return names_; }
  // A tensor for each input; the session makes the outputs.
  std::vector<OwnedValue> run(const std::vector<const ort::Value*>& inputs) const;

 private:
  const Runtime& runtime_;
  Names names_;
  OwnedEnv env_;
  OwnedSession session_;
};

}  // namespace tilewright::provider
