// Recurrent layers of whole models: a product for all steps, then a loop whose body is one step. Few steps are
// unrolled.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>

#include "models/onnx/whole/index_expr.h"
#include "models/onnx/whole/whole.h"

namespace tilewright::onnx {
namespace {

constexpr int64_t kMostSteps = 256;  // of both directions together, where they are unrolled
constexpr int64_t kFewSteps = 4;     // that are unrolled: more become a loop
constexpr size_t kMostJoined = 32;   // operands of one layer that joins

std::string sigmoid(const std::string& x) { return fmt::format("(1 / (1 + exp(-({}))))", x); }

// One direction of an LSTM, a GRU or an RNN. Its states are [1, batch, hidden].
class Direction {
 public:
  Direction(const Mapping& m, const Node& node, int64_t index, std::string name)
      : m_(m), node_(node), index_(std::to_string(index)), name_(std::move(name)),
        type_(m.elem(node.inputs.at(0))), batch_first_(node.integer("layout", 0) != 0) {
    const Sizes x = sizes_of_value(m, node.inputs[0]), r = sizes_of_value(m, node.inputs.at(2));
    if (x.size() != 3 || r.size() != 3) throw NotMapped("it takes an input and weights of 3 axes");
    steps_ = x[batch_first_ ? 1 : 0];
    batch_ = x[batch_first_ ? 0 : 1];
    hidden_ = r[2];
    gates_ = r[1];
    if (gates_ != hidden_ * (node.op == "LSTM" ? 4 : node.op == "GRU" ? 3 : 1)) {
      throw NotMapped(fmt::format("its weights have {} rows for {} states", gates_, hidden_));
    }
  }

  // All layers of it, in the order in which steps are taken.
  void unroll(bool backwards) {
    add_inputs();
    h_ = initial(5, "h");
    if (node_.op == "LSTM") c_ = initial(6, "c");
    states_.resize(static_cast<size_t>(steps_));
    for (int64_t step = 0; step < steps_; ++step) {
      const int64_t t = backwards ? steps_ - 1 - step : step;
      at_ = fmt::format("{}/{}", name_, t);
      take_step(t);
      states_[static_cast<size_t>(t)] = h_;
    }
  }

  // The same as a loop, whose body is one step. `all` is the name of the states of all steps.
  void repeat(bool backwards, const std::string& all) {
    add_inputs();
    const std::string body = name_ + "/step";
    LayerLoop loop;
    loop.body = body;
    loop.rounds = steps_;
    row_ = body + "/input";
    loop.inputs.push_back({row_,
                           type_,
                           {batch_, gates_},
                           backwards ? LayerLoop::In::RowsBack : LayerLoop::In::Rows,
                           inputs_,
                           ""});
    const bool lstm = node_.op == "LSTM";
    std::string h = initial(5, "h"), c = lstm ? initial(6, "c") : "";
    if (h.empty()) h = zeros("h");
    if (lstm && c.empty()) c = zeros("c");
    h_ = body + "/h/before";
    loop.inputs.push_back({h_, type_, state_sizes(), LayerLoop::In::Carried, h, ""});
    if (lstm) {
      c_ = body + "/c/before";
      loop.inputs.push_back({c_, type_, state_sizes(), LayerLoop::In::Carried, c, ""});
    }
    const size_t first = layers_.size();
    at_ = body;
    take_step(0);
    for (size_t i = first; i < layers_.size(); ++i) layers_[i].layer.bodies = {body};
    loop.inputs[1].next = h_;
    if (lstm) loop.inputs[2].next = c_;
    loop.outputs = {{h_, all, true, backwards}, {h_, name_ + "/last", false, false}};
    if (lstm) loop.outputs.push_back({c_, name_ + "/cell", false, false});
    h_ = name_ + "/last";
    c_ = name_ + "/cell";
    Draft d = m_.draft("expr", node_);
    d.layer.output = all;
    d.layer.loop = std::make_shared<LayerLoop>(std::move(loop));
    layers_.push_back(std::move(d));
  }

  Mapped& layers() { return layers_; }
  const std::vector<std::string>& states() const { return states_; }  // by the place of their step
  const std::string& last() const { return h_; }
  const std::string& cell() const { return c_; }
  Sizes state_sizes() const { return {1, batch_, hidden_}; }
  ElemType type() const { return type_; }

 private:
  void take_step(int64_t t) {
    if (node_.op == "LSTM") {
      lstm_step(t);
    } else if (node_.op == "GRU") {
      gru_step(t);
    } else {
      rnn_step(t);
    }
  }
  std::string zeros(const std::string& what) {
    const std::string name = fmt::format("{}/{}", name_, what);
    IndexExpr e = layer(name, state_sizes());
    return add(e, fmt::format("{} = 0", e.left()), name);
  }
  IndexExpr layer(const std::string& output, const Sizes& sizes) const {
    return {m_, node_, output, sizes, type_};
  }
  std::string add(const IndexExpr& e, const std::string& value, const std::string& name) {
    layers_.push_back(e.finish(value));
    return name;
  }
  // An element of the bias: those of the input come first, then those of the states.
  std::string bias(IndexExpr& e, const std::string& row, bool of_states) const {
    if (!node_.has_input(3)) return "0";
    return e.at(node_.inputs[3], {index_, of_states ? fmt::format("{} + {}", row, gates_) : row});
  }
  std::string state(IndexExpr& e, const std::string& value, const std::string& column) const {
    return e.made_at(value, state_sizes(), type_, {"0", e.indices().at(rows_axis(e)), column});
  }
  // The axis of a layer's output that counts the batch: its last but one.
  static size_t rows_axis(const IndexExpr& e) { return e.sizes().size() - 2; }

  // The input's product with its weight, for all steps: [step, batch, gates].
  void add_inputs() {
    const std::string gates = name_ + "/input";
    IndexExpr e = layer(gates, {steps_, batch_, gates_});
    const std::string r = e.reduced(sizes_of_value(m_, node_.inputs[0]).back());
    const std::string x = batch_first_ ? e.at(node_.inputs[0], {"i1", "i0", r})
                                       : e.at(node_.inputs[0], {"i0", "i1", r});
    const std::string w = e.at(node_.inputs.at(1), {index_, "i2", r});
    inputs_ = add(e,
                  fmt::format("{0} += {1} * {2}; {3} = {0} + {4}", e.left("S"), x, w, e.left(),
                              bias(e, "i2", false)),
                  gates);
  }
  // Its rows of step t: [batch, gates].
  std::string inputs_at(int64_t t) {
    if (!row_.empty()) return row_;
    IndexExpr e = layer(at_ + "/input", {batch_, gates_});
    const std::string own =
        e.made_at(inputs_, {steps_, batch_, gates_}, type_, {std::to_string(t), "i0", "i1"});
    return add(e, fmt::format("{} = {}", e.left(), own), at_ + "/input");
  }
  // The state that the model begins with, or "" where it begins with zeros.
  std::string initial(size_t input, const std::string& what) {
    if (!node_.has_input(input)) return "";
    const std::string name = fmt::format("{}/{}", name_, what);
    IndexExpr e = layer(name, state_sizes());
    const std::string own = batch_first_ ? e.at(node_.inputs[input], {"i1", index_, "i2"})
                                         : e.at(node_.inputs[input], {index_, "i1", "i2"});
    return add(e, fmt::format("{} = {}", e.left(), own), name);
  }
  // Rows `first` to `first + rows` of the recurrent weight times a state, with their bias, and with
  // what comes from the input where `added` names that: [batch, rows].
  std::string product(const std::string& what, const std::string& of, int64_t first, int64_t rows,
                      const std::string& added) {
    const std::string name = fmt::format("{}/{}", at_, what);
    IndexExpr e = layer(name, {batch_, rows});
    const std::string row = first == 0 ? "i1" : fmt::format("i1 + {}", first);
    std::string sum, value;
    if (!of.empty()) {
      const std::string r = e.reduced(hidden_);
      sum = fmt::format("{} += {} * {}; ", e.left("S"), state(e, of, r),
                        e.at(node_.inputs[2], {index_, row, r}));
      value = e.left("S") + " + ";
    }
    value += bias(e, row, true);
    if (!added.empty()) value += " + " + e.made_at(added, {batch_, gates_}, type_, {"i0", row});
    return add(e, fmt::format("{}{} = {}", sum, e.left(), value), name);
  }

  void lstm_step(int64_t t) {
    const std::string sums = product("gates", h_, 0, gates_, inputs_at(t));
    IndexExpr cell = layer(at_ + "/c", state_sizes());
    const std::string before = c_.empty() ? "" : state(cell, c_, "i2");
    auto open = [&](IndexExpr& e, int64_t which, const std::string& seen) {
      return sigmoid(gate(e, sums, which) + peephole(e, which, seen));
    };
    const std::string kept =
        c_.empty() ? "" : fmt::format("{} * {} + ", open(cell, 2, before), before);
    c_ = add(cell,
             fmt::format("{} = {}{} * tanh({})", cell.left(), kept, open(cell, 0, before),
                         gate(cell, sums, 3)),
             at_ + "/c");
    IndexExpr out = layer(at_ + "/h", state_sizes());
    const std::string c = state(out, c_, "i2");
    h_ = add(out, fmt::format("{} = {} * tanh({})", out.left(), open(out, 1, c), c), at_ + "/h");
  }
  // Gates of an LSTM: input, output, forget, cell.
  std::string gate(IndexExpr& e, const std::string& sums, int64_t which, int64_t rows = 0) const {
    const std::string row = which == 0 ? "i2" : fmt::format("i2 + {}", which * hidden_);
    return e.made_at(sums, {batch_, rows == 0 ? gates_ : rows}, type_, {"i1", row});
  }
  std::string peephole(IndexExpr& e, int64_t which, const std::string& cell) const {
    if (!node_.has_input(7) || cell.empty()) return "";
    const std::string row = which == 0 ? "i2" : fmt::format("i2 + {}", which * hidden_);
    return fmt::format(" + {} * {}", e.at(node_.inputs[7], {index_, row}), cell);
  }

  // Gates of a GRU: update, reset, new state.
  void gru_step(int64_t t) {
    const std::string in = inputs_at(t);
    const bool after = node_.integer("linear_before_reset", 0) != 0;
    const int64_t rows = after ? gates_ : 2 * hidden_;
    const std::string sums = product("gates", h_, 0, rows, "");
    auto open = [&](IndexExpr& e, int64_t which) {
      return sigmoid(fmt::format("{} + {}", gate(e, in, which), gate(e, sums, which, rows)));
    };
    std::string fresh;  // what the new state takes from the old one
    if (!after) {
      std::string kept;
      if (!h_.empty()) {
        IndexExpr e = layer(at_ + "/kept", state_sizes());
        kept = add(e, fmt::format("{} = {} * {}", e.left(), open(e, 1), state(e, h_, "i2")),
                   at_ + "/kept");
      }
      fresh = product("new", kept, 2 * hidden_, hidden_, "");
    }
    IndexExpr e = layer(at_ + "/h", state_sizes());
    const std::string own = after ? fmt::format("{} * {}", open(e, 1), gate(e, sums, 2, rows))
                                  : gate(e, fresh, 0, hidden_);
    const std::string old =
        h_.empty() ? "" : fmt::format(" + {} * {}", open(e, 0), state(e, h_, "i2"));
    h_ = add(e,
             fmt::format("{} = (1 - {}) * tanh({} + {}){}", e.left(), open(e, 0), gate(e, in, 2),
                         own, old),
             at_ + "/h");
  }

  void rnn_step(int64_t t) {
    const std::string sums = product("sums", h_, 0, gates_, inputs_at(t));
    IndexExpr e = layer(at_ + "/h", state_sizes());
    h_ = add(e, fmt::format("{} = tanh({})", e.left(), gate(e, sums, 0)), at_ + "/h");
  }

  const Mapping& m_;
  const Node& node_;
  std::string index_, name_;
  ElemType type_;
  bool batch_first_;
  int64_t steps_ = 0, batch_ = 0, hidden_ = 0, gates_ = 0;
  std::string inputs_, h_, c_, at_;
  std::string row_;  // the rows of the step that is taken, in a loop
  std::vector<std::string> states_;
  Mapped layers_;
};

// A value whose first axis has so many rows.
struct Rows {
  std::string name;
  int64_t count;
};

// Values one behind another along their first axis; `row` are the sizes of a row.
std::string join(const Mapping& m, const Node& node, std::vector<Rows> parts, const Sizes& row,
                 ElemType type, const std::string& name, Mapped* layers) {
  while (parts.size() > 1) {
    std::vector<Rows> wider;
    for (size_t first = 0; first < parts.size(); first += kMostJoined) {
      const size_t end = std::min(first + kMostJoined, parts.size());
      Rows all{fmt::format("{}/{}", name, layers->size()), 0};
      for (size_t i = first; i < end; ++i) all.count += parts[i].count;
      Sizes sizes = {all.count};
      sizes.insert(sizes.end(), row.begin(), row.end());
      IndexExpr e(m, node, all.name, sizes, type);
      std::string text;
      int64_t behind = all.count;
      for (size_t i = end; i-- > first; behind -= parts[i].count) {
        std::vector<std::string> at = e.indices();
        const int64_t start = behind - parts[i].count;
        if (start > 0) at[0] = fmt::format("{} - {}", at[0], start);
        sizes[0] = parts[i].count;
        const std::string own = e.made_at(parts[i].name, sizes, type, at);
        text = text.empty() ? own : fmt::format("select(i0 < {}, {}, {})", behind, own, text);
      }
      layers->push_back(e.finish(fmt::format("{} = {}", e.left(), text)));
      wider.push_back(all);
    }
    parts = std::move(wider);
  }
  return parts.at(0).name;
}

// An output of the node out of a value [rows, batch, hidden] of each direction. With `batch_first` its
// axes are batch, rows if `steps`, directions, hidden; else rows if `steps`, directions, batch, hidden.
void put_out(const Mapping& m, const Node& node, size_t output, const std::vector<Rows>& values,
             bool steps, Mapped* layers) {
  if (output >= node.outputs.size() || node.outputs[output].empty()) return;
  const bool batch_first = node.integer("layout", 0) != 0;
  IndexExpr e(m, node, output);
  const auto& i = e.indices();
  const size_t direction = batch_first ? i.size() - 2 : i.size() - 3;
  const std::string batch = i.at(batch_first ? 0 : i.size() - 2), column = i.back();
  const std::string row = !steps ? "0" : i.at(batch_first ? 1 : 0);
  std::string text;
  for (size_t d = values.size(); d-- > 0;) {
    const Sizes all = e.sizes();
    const Sizes own = {values[d].count, all.at(batch_first ? 0 : all.size() - 2), all.back()};
    const std::string value =
        e.made_at(values[d].name, own, m.elem(node.inputs[0]), {row, batch, column});
    text = text.empty() ? value : fmt::format("select({} < 1, {}, {})", i[direction], value, text);
  }
  layers->push_back(e.finish(fmt::format("{} = {}", e.left(), text)));
}

// Refuses forms that are not unrolled: other activations, clipping, coupled gates, lengths.
void check_plain(const Mapping& m, const Node& node, int64_t steps) {
  static const std::map<std::string, std::vector<std::string>> kUsual = {
      {"LSTM", {"sigmoid", "tanh", "tanh"}}, {"GRU", {"sigmoid", "tanh"}}, {"RNN", {"tanh"}}};
  if (const Attribute* given = node.find("activations")) {
    const std::vector<std::string>& usual = kUsual.at(node.op);
    for (size_t i = 0; i < given->strings.size(); ++i) {
      std::string name = given->strings[i];
      std::transform(name.begin(), name.end(), name.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      if (name != usual[i % usual.size()]) {
        throw NotMapped(fmt::format("its activation is {}; expected {}", given->strings[i],
                                    usual[i % usual.size()]));
      }
    }
  }
  if (node.find("clip") != nullptr) throw NotMapped("it clips its sums");
  if (node.integer("input_forget", 0) != 0) throw NotMapped("its input and forget gates are one");
  if (!node.has_input(4)) return;
  const Tensor* lengths = m.graph.value(node.inputs[4]).tensor;
  bool all = lengths != nullptr && lengths->readable();
  for (int64_t i = 0; all && i < lengths->count; ++i) all = lengths->whole_at(i) == steps;
  if (!all) throw NotMapped("its sequences have lengths of their own");
}

Mapped express_recurrent(const Mapping& m, const Node& node) {
  const std::string way = node.text("direction", "forward");
  const auto named = std::find_if(node.outputs.begin(), node.outputs.end(),
                                  [](const std::string& name) { return !name.empty(); });
  if (named == node.outputs.end()) throw NotMapped("it gives nothing");
  const Sizes x = sizes_of_value(m, node.inputs.at(0));
  const int64_t steps = x.at(node.integer("layout", 0) != 0 ? 1 : 0);
  const int64_t directions = way == "bidirectional" ? 2 : 1;
  const bool loops = !m.options.unrolled && (steps > kFewSteps || has_stand_in(steps));
  if (!loops && steps * directions > kMostSteps) {
    throw NotMapped(
        fmt::format("it has {} steps; expected at most {}, since each has layers of its own",
                    steps * directions, kMostSteps));
  }
  check_plain(m, node, steps);
  Mapped layers;
  std::vector<Rows> states, last, cells;
  for (int64_t d = 0; d < directions; ++d) {
    Direction one(m, node, d, fmt::format("{}/{}", *named, d));
    const std::string all = fmt::format("{}/{}/all", *named, d);
    if (loops) {
      one.repeat(d == 1 || way == "reverse", all);
    } else {
      one.unroll(d == 1 || way == "reverse");
    }
    std::move(one.layers().begin(), one.layers().end(), std::back_inserter(layers));
    if (loops) {
      states.push_back({all, steps});
      last.push_back({one.last(), 1});
      cells.push_back({one.cell(), 1});
      continue;
    }
    std::vector<Rows> parts;
    for (const std::string& state : one.states()) parts.push_back({state, 1});
    const Sizes sizes = one.state_sizes();
    states.push_back({join(m, node, parts, {sizes[1], sizes[2]}, one.type(), all, &layers), steps});
    last.push_back({one.last(), 1});
    cells.push_back({one.cell(), 1});
  }
  put_out(m, node, 0, states, true, &layers);
  put_out(m, node, 1, last, false, &layers);
  if (node.op == "LSTM") put_out(m, node, 2, cells, false, &layers);
  return layers;
}

}  // namespace

const MapFns& whole_recurrent_mappings() {
  static const MapFns kMappings = {
      {"LSTM", express_recurrent}, {"GRU", express_recurrent}, {"RNN", express_recurrent}};
  return kMappings;
}

}  // namespace tilewright::onnx
