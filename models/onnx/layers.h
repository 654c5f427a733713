// The work of a model as specs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/type.h"
#include "models/onnx/graph.h"

namespace tilewright::onnx {

// A constant that the file does not hold and a layer reads: a table of indices, of weights.
struct MadeConstant {
  std::string name;
  ElemType elem = ElemType::f32;
  std::vector<int64_t> shape;
  std::vector<double> values;
  std::shared_ptr<const std::string> data =
      nullptr;  // in place of `values`: the elements as they lie
};

// Rounds of layers, which together are one layer (graph/loops/loops.h).
struct LayerLoop {
  enum class In : uint8_t { Rows, RowsBack, Carried, Number };
  struct Input {
    std::string name;
    ElemType elem = ElemType::f32;
    std::vector<int64_t> shape;
    In kind = In::Rows;
    std::string value;  // outside: of rows, or in the first round
    std::string next;   // inside: of a carried one in later rounds
  };
  struct Output {
    std::string value;  // inside
    std::string name;   // outside
    bool rows = false, back = false;
  };
  std::string body;    // its name: layers and nodes that are in it have it among theirs
  int64_t rounds = 1;  // at most; with stand-ins
  std::string count;   // a value that says how many at most, or ""
  std::string go_on;   // a value inside: no round follows where it is 0, or ""
  std::vector<Input> inputs;
  std::vector<Output> outputs;
};

// A workload of the model, and where it stands.
struct Layer {
  std::string spec;                // a JSON object
  std::string plain = {};          // in the place of a spec: a plain node (graph/plain/plain.h)
  std::vector<const Node*> nodes;  // what it stands for, the one that names it first
  // The values that its operands are, "A": "x". Row-major elements lie in them as the operand wants
  // them, but for what `note` says and weights in a form of their own.
  std::map<std::string, std::string> operands;
  std::string output;
  std::vector<std::string> more = {};         // outputs of a plain node behind the first one
  std::string note;                           // what has to be done besides, or ""
  std::vector<MadeConstant> made = {};        // with LayerOptions::whole
  std::shared_ptr<LayerLoop> loop = nullptr;  // in the place of a spec
  std::vector<std::string> bodies = {};       // that the layer is in
};

struct LeftOut {
  const Node* node;
  std::string reason;
};

struct LayerOptions {
  // Convolutions over images with the channels last, whatever the model has.
  bool channels_last = false;
  // Layers for all nodes, those that move elements too, such that together they compute what the model
  // does: nothing has to be done besides. A layer may read what an earlier one made for it, under a
  // name that the file does not have. Sizes have to be numbers. Truth values are u8.
  bool whole = false;
  // Whether recurrent layers are unrolled, however many steps they have: no loop remains of them.
  bool unrolled = false;
};

struct Layers {
  std::vector<Layer> layers;
  std::vector<LeftOut> left_out;
};

// The value whose elements an output has under another name, perhaps in another shape: of a view, and of an If
// whose condition is known. Nothing for other nodes.
std::optional<std::string> shown_value(const Graph& graph, const Node& node,
                                       const std::string& output);

// All nodes but those that move or calculate nothing when the model runs: shapes, constants, views.
// Each spec parses.
Layers find_layers(const Graph& graph, const LayerOptions& options);

}  // namespace tilewright::onnx
