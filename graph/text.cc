// Graphs out of their text form.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "graph/graph.h"
#include "graph/loops/loops.h"
#include "graph/sizes.h"
#include "ir/ops/spec.h"
#include "models/onnx/extent.h"
#include "runtime/tensor/element.h"
#include "runtime/tensor/operands.h"

namespace tilewright::graph {
namespace {

// Reads one line from left to right.
class Line {
 public:
  // `begin`: the byte of the whole text at which it begins.
  Line(std::string_view text, int number, size_t begin)
      : text_(text), number_(number), begin_(begin) {}

  [[noreturn]] void fail(const std::string& why) const {
    throw GraphError(
        fmt::format("line {}, column {} (byte {}): {}", number_, at_ + 1, begin_ + at_, why));
  }
  bool is_at(char c) {
    skip();
    return at_ < text_.size() && text_[at_] == c;
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view word) {
    skip();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  void expect(std::string_view word) {
    if (!take(word)) fail(fmt::format("expected '{}'", word));
  }
  bool done() {
    skip();
    return at_ == text_.size();
  }
  std::string word() {
    skip();
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  text_[at_] == '_' || text_[at_] == '.' || text_[at_] == ':')) {
      ++at_;
    }
    if (at_ == begin) fail("expected a name");
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::string text() {
    skip();
    if (at_ >= text_.size() || text_[at_] != '"') fail("expected a text in double quotes");
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) fail("the text does not end");
    const std::string_view inner = text_.substr(at_ + 1, end - at_ - 1);
    if (std::ranges::all_of(inner, [](char c) { return c >= ' ' && c <= '~' && c != '\\'; })) {
      at_ = end + 1;
      return std::string(inner);
    }
    const auto parsed = nlohmann::json::parse(text_.substr(at_, end + 1 - at_), nullptr,
                                              /*allow_exceptions=*/false);
    if (!parsed.is_string()) fail("the text is not valid");
    at_ = end + 1;
    return parsed.get<std::string>();
  }
  template <class T>
  T number() {
    skip();
    T value = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("expected a number");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
  int number_;
  size_t begin_;
};

class Parser {
 public:
  Graph parse(std::string_view text) {
    int number = 0;
    for (size_t at = 0; at < text.size(); ++number) {
      const size_t end = std::min(text.find('\n', at), text.size());
      Line line(text.substr(at, end - at), number + 1, at);
      if (!line.done() && !line.is_at('#')) read(line);
      if (at = end + 1; at >= text.size() && !around_.empty()) line.fail("a loop does not end");
    }
    return std::move(graph_);
  }

 private:
  size_t known(Line& line) {
    auto it = places_.find(line.text());
    if (it == places_.end()) line.fail("no value of that name stands before");
    return it->second;
  }

  // "name": f32[1, 3]
  Value typed(Line& line) {
    Value v;
    v.name = line.text();
    line.expect(":");
    read_type(line, &v);
    return v;
  }

  static void read_type(Line& line, Value* value) {
    Value& v = *value;
    const std::string type = line.word();
    auto elem = parse_elem_type(type);
    if (!elem || elem == ElemType::boolean || elem == ElemType::index) {
      line.fail(fmt::format("no value has elements of {}", type));
    }
    v.elem = *elem;
    line.expect("[");
    while (!line.take("]")) {
      if (!v.shape.empty()) line.expect(",");
      v.shape.push_back(line.number<int64_t>());
      if (v.shape.back() < 1 || v.shape.size() > 32) line.fail("expected sizes of 1 or more");
    }
    if (!element_count(v.shape)) line.fail("the shape overflows");
  }

  // The type and the shape of what the workload makes.
  static void take_type(Line& line, const std::string& spec, Value* value) {
    try {
      const OperandInfo made = operands_of(parse_workload(spec), {}).back();
      value->elem = made.elem;
      value->shape = made.shape;
    } catch (const Error& e) {
      const std::string what = e.what();
      line.fail(what.substr(0, what.find('\n')));
    }
    if (!element_count(value->shape)) line.fail("the shape overflows");
  }

  size_t add(Line& line, Value v) {
    if (!places_.emplace(v.name, graph_.values.size()).second) line.fail("the name occurs twice");
    return graph_.add(std::move(v));
  }

  void read(Line& line) {
    if (line.take("loop ")) {
      begin_loop(line);
    } else if (!around_.empty() && read_in_loop(line)) {
    } else if (line.take("graph ")) {
      graph_.name = line.text();
    } else if (line.take("dim ")) {
      read_dim(line);
    } else if (line.take("input ")) {
      graph_.inputs.push_back(add(line, typed(line)));
    } else if (line.take("state ")) {
      graph_.states.push_back(add(line, typed(line)));
    } else if (line.take("const ")) {
      read_constant(line);
    } else if (line.take("output ")) {
      graph_.outputs.push_back(known(line));
    } else {
      read_node(line);
    }
    if (!line.done()) line.fail("something follows");
  }

  void read_dim(Line& line) {
    Dim dim;
    dim.name = line.text();
    line.expect(":");
    dim.by_value = line.take("at most ");
    dim.range.min = dim.by_value ? 1 : line.number<int64_t>();
    if (!dim.by_value) line.expect("..");
    dim.range.max = line.number<int64_t>();
    line.expect("as");
    dim.stand_in = line.number<int64_t>();
    if (std::ranges::find(onnx::kStandIns, dim.stand_in) == onnx::kStandIns.end() &&
        std::ranges::find(onnx::kOtherStandIns, dim.stand_in) == onnx::kOtherStandIns.end()) {
      line.fail(fmt::format("{} is no stand-in; expected one of {}", dim.stand_in,
                            fmt::join(onnx::kStandIns, ", ")));
    }
    if (graph_.dims.size() == kMostDims) {
      line.fail(fmt::format("expected at most {} dimensions", kMostDims));
    }
    if (dim.range.min < 1 || dim.range.max <= dim.range.min) line.fail("the range is empty");
    for (const Dim& other : graph_.dims) {
      if (other.name == dim.name || other.stand_in == dim.stand_in) line.fail("it occurs twice");
    }
    graph_.dims.push_back(std::move(dim));
  }

  void read_constant(Line& line) {
    Value v = typed(line);
    v.constant = true;
    line.expect("=");
    if (line.take("{")) {
      if (v.count() > kMaxWritten) line.fail("so many elements do not stand in a text");
      auto data = std::make_shared<std::string>(static_cast<size_t>(v.bytes()), '\0');
      for (int64_t i = 0; i < v.count(); ++i) {
        if (i > 0) line.expect(",");
        store_element(v.elem, data->data(), i, line.number<double>());
      }
      line.expect("}");
      v.data = std::move(data);
    } else if (line.take("from ")) {
      v.file = line.text();
      v.tensor = line.is_at('"') ? line.text() : v.name;
      if (v.file.empty()) line.fail("expected the name of a file");
    } else {
      v.hash = line.word();
    }
    add(line, std::move(v));
  }

  void read_operands(Line& line, Node* node) {
    line.expect("(");
    while (!line.take(")")) {
      if (!node->operands.empty()) line.expect(",");
      const std::string name = line.word();
      line.expect("=");
      node->operands[name] = known(line);
    }
  }

  void read_node(Line& line) {
    Value v;
    v.name = line.text();
    const bool is_typed = line.take(":");
    if (is_typed) read_type(line, &v);
    Node node;
    std::vector<Value> more;
    while (is_typed && line.take(",")) more.push_back(typed(line));
    line.expect("=");
    if (!is_typed && !line.is_at('"'))
      line.fail("expected the shape of a view, a write or a plain node");
    if (line.take("view ")) {
      std::vector<size_t> parts = {known(line)};
      while (line.take(",")) parts.push_back(known(line));
      if (parts.size() == 1 && line.take("from ")) node.first = line.number<int64_t>();
      if (node.first < 0) line.fail("expected the place of the first element");
      set_parts(&node, parts);
    } else if (line.take("write ")) {
      node.operands["R"] = known(line);
      line.expect("to");
      node.operands["X"] = known(line);
      line.expect("at");
      node.operands["P"] = known(line);
    } else {
      const bool plain = line.take("plain ");
      std::string& operator_text = plain ? node.plain : node.spec;
      operator_text = line.text();
      if (operator_text.empty()) line.fail("expected a spec");
      if (!is_typed) take_type(line, node.spec, &v);
      read_operands(line, &node);
    }
    if (!more.empty() && !node.is_plain()) line.fail("a plain node alone has several outputs");
    node.label = line.take("for ") ? line.text() : v.name;
    node.output = add(line, std::move(v));
    for (Value& other : more) node.more.push_back(add(line, std::move(other)));
    graph_.nodes.push_back(std::move(node));
  }

  // The graph around the one that is read, and what is known of the loop between them.
  struct Around {
    Graph graph;
    std::map<std::string, size_t> places;
    Node node;
    Loop loop;
    std::map<size_t, std::string> next;  // by the inputs that are carried
    std::string go_on;
    std::vector<std::string> from;  // of the outputs
  };

  void begin_loop(Line& line) {
    Around a;
    a.loop.rounds = line.number<int64_t>();
    if (line.take("at most ")) a.node.operands[kRounds] = known(line);
    if (line.take("while ")) a.go_on = line.text();
    if (line.take("for ")) a.node.label = line.text();
    if (around_.size() == 8) line.fail("loops are 8 deep at most");
    a.loop.body.dims = graph_.dims;
    std::swap(a.graph, graph_);
    std::swap(a.places, places_);
    around_.push_back(std::move(a));
    graph_.dims = around_.back().loop.body.dims;
  }

  size_t known_around(Line& line) {
    auto it = around_.back().places.find(line.text());
    if (it == around_.back().places.end()) line.fail("no value of that name stands before");
    return it->second;
  }

  // Lines that only bodies have.
  bool read_in_loop(Line& line) {
    Around& a = around_.back();
    if (line.take("input ")) {
      read_loop_input(line);
    } else if (line.take("rows ")) {
      const bool back = line.take("back ");
      read_loop_output(line, true, back);
    } else if (line.take("last ")) {
      read_loop_output(line, false, false);
    } else if (line.take("end")) {
      end_loop(line);
    } else {
      for (const char* word : {"graph ", "dim ", "state "}) {
        if (line.take(word)) line.fail("a body has none of that");
      }
      if (!a.from.empty()) line.fail("expected rows, last or end");
      return false;
    }
    return true;
  }

  void read_loop_input(Line& line) {
    Around& a = around_.back();
    Value v = typed(line);
    line.expect("=");
    Loop::Input input;
    const std::string name = v.name;
    if (line.take("number")) {
      input.kind = Loop::In::Number;
    } else if (line.take("rows ")) {
      input.kind = line.take("back ") ? Loop::In::RowsBack : Loop::In::Rows;
      a.node.operands[name] = known_around(line);
    } else if (line.take("whole ")) {
      a.node.operands[name] = known_around(line);
    } else {
      input.kind = Loop::In::Carried;
      a.node.operands[name] = known_around(line);
      line.expect("then");
      a.next[a.loop.inputs.size()] = line.text();
    }
    a.loop.inputs.push_back(input);
    graph_.inputs.push_back(add(line, std::move(v)));
  }

  void read_loop_output(Line& line, bool rows, bool back) {
    Around& a = around_.back();
    Value v = typed(line);
    line.expect("=");
    a.from.push_back(line.text());
    a.loop.outputs.push_back({0, rows, back});
    if (!a.places.emplace(v.name, a.graph.values.size()).second) line.fail("the name occurs twice");
    const size_t made = a.graph.add(std::move(v));
    if (a.from.size() == 1) {
      a.node.output = made;
    } else {
      a.node.more.push_back(made);
    }
  }

  void end_loop(Line& line) {
    Around a = std::move(around_.back());
    around_.pop_back();
    const auto output = [&](const std::string& name) {
      for (size_t o = 0; o < graph_.outputs.size(); ++o) {
        if (graph_.values[graph_.outputs[o]].name == name) return o;
      }
      line.fail(fmt::format("'{}' is no output of the body", name));
    };
    if (a.from.empty()) line.fail("the loop gives nothing");
    for (const auto& [input, name] : a.next) a.loop.inputs[input].next = output(name);
    for (size_t o = 0; o < a.from.size(); ++o) a.loop.outputs[o].from = output(a.from[o]);
    if (!a.go_on.empty()) a.loop.go_on = output(a.go_on);
    a.loop.body = std::move(graph_);
    if (a.node.label.empty()) a.node.label = a.graph.values[a.node.output].name;
    a.node.loop = std::make_shared<const Loop>(std::move(a.loop));
    a.graph.nodes.push_back(std::move(a.node));
    graph_ = std::move(a.graph);
    places_ = std::move(a.places);
  }

  Graph graph_;
  std::map<std::string, size_t> places_;
  std::vector<Around> around_;
};

}  // namespace

Graph parse_graph(std::string_view text) { return Parser().parse(text); }

}  // namespace tilewright::graph
