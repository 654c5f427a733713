// The execution provider of one session, and the factory that makes them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "provider/options.h"
#include "provider/region.h"
#include "provider/runner.h"

namespace tilewright::provider {

class Provider : public ort::Ep {
 public:
  Provider(const Runtime& runtime, const ort::Logger* logger, Options options);

  // Which nodes a model file stands for. Says in the log why others stay where they are.
  void find_capability(const ort::Graph* graph, ort::Support* support);
  // One of the nodes that it claimed.
  ort::ComputeInfo* compile(const ort::Graph* graph, const ort::Node* fused,
                            ort::Node** context_node);

 private:
  // Nodes that a runner stands for, known by what they give.
  struct Claim {
    std::vector<std::string> outputs;
    std::unique_ptr<Runner> runner;
  };
  void log(ort::Severity severity, const std::string& line) const {
    runtime_.log(logger_, severity, line);
  }
  Runner::Log log_lines() const;
  std::string model_file(const std::string& digest) const;

  void claim_context(const GraphView& graph, const ort::Graph* owner, const NodeView& node,
                     ort::Support* support);
  // Claims the region where its file is right and fast enough, else says why not. A trial times for so many
  // seconds at least.
  std::string refusal(const GraphView& graph, const Region& region, double seconds,
                      ort::Support* support);
  // Claims nodes of a region that was not claimed, which have files of their own. Returns how many.
  size_t claim_nodes(const GraphView& graph, const Region& region, const std::string& why,
                     ort::Support* support);
  void claim(const Region& region, std::unique_ptr<Runner> runner, ort::Support* support);
  // Writes the region for tune-cli and says how to compile it, where the option asks for that and it has no file.
  bool dump(const GraphView& graph, const Region& region) const;
  ort::Node* context_node(const ort::Graph* graph, const ort::Node* fused,
                          const Runner& runner) const;

  const Runtime& runtime_;
  const ort::Logger* logger_;
  Options options_;
  std::vector<Claim> claims_;
};

class ProviderFactory : public ort::Factory {
 public:
  explicit ProviderFactory(Runtime runtime);
  const Runtime& runtime() const { return runtime_; }

 private:
  Runtime runtime_;
};

}  // namespace tilewright::provider
