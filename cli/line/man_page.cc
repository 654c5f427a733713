#include "cli/line/man_page.h"

#include <fmt/format.h>

#include "base/knobs.h"
#include "ir/ops/operator.h"
#include "tilewright/version.h"

namespace tilewright::cli {
namespace {

// The code point that begins at `at` of well-formed UTF-8; moves `at` behind it.
uint32_t code_point(const std::string& text, size_t& at) {
  auto first = static_cast<unsigned char>(text[at++]);
  int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
  uint32_t code = more == 0 ? first : first & (0x3fu >> more);
  for (; more > 0 && at < text.size(); --more) {
    code = code << 6 | (static_cast<unsigned char>(text[at++]) & 0x3fu);
  }
  return code;
}

// Text as roff prints it letter by letter: in ASCII, with no line that looks like a request.
std::string roff(const std::string& text) {
  std::string out;
  bool line_start = true;
  for (size_t at = 0; at < text.size();) {
    uint32_t c = code_point(text, at);
    if (line_start && (c == '.' || c == '\'')) out += "\\&";
    line_start = c == '\n';
    switch (c) {
      case '\\': out += "\\e"; break;
      case '-': out += "\\-"; break;
      case '\'': out += "\\(aq"; break;
      case '^': out += "\\(ha"; break;
      case '~': out += "\\(ti"; break;
      case '`': out += "\\(ga"; break;
      case '"': out += "\\(dq"; break;
      default:
        out += c < 0x80 ? std::string(1, static_cast<char>(c)) : fmt::format("\\[u{:04X}]", c);
    }
  }
  return out;
}

// ".B" of an option's names and ".I" of its value, on one line.
std::string option_head(const OptionInfo& option) {
  std::string head;
  for (const std::string& name : option.names) {
    head += (head.empty() ? "" : ", ") + std::string("\\fB") + roff(name) + "\\fR";
  }
  if (option.takes_value() && option.names[0].starts_with("-")) {
    head += " \\fI" + roff(option.value) + "\\fR";
  }
  return head;
}

std::string option_text(const OptionInfo& option) {
  std::string text = roff(option.description);
  if (!option.default_text.empty()) text += " [" + roff(option.default_text) + "]";
  return text + (option.required ? " (required)" : "");
}

std::string options(const CommandInfo& command) {
  std::string out;
  for (const auto* list : {&command.positionals, &command.options}) {
    for (const OptionInfo& option : *list) {
      out += ".TP\n" + option_head(option) + "\n" + option_text(option) + "\n";
    }
  }
  return out;
}

std::string synopsis(const CommandInfo& command) {
  std::string out = "\\fB" + roff("tune-cli " + command.name) + "\\fR [\\fIoptions\\fR]";
  for (const OptionInfo& p : command.positionals) {
    out += p.required ? " \\fI" + roff(p.names[0]) + "\\fR" : " [\\fI" + roff(p.names[0]) + "\\fR]";
  }
  return out;
}

std::string command_section(const CommandInfo& command) {
  std::string out = fmt::format(".SS {}\n{}.\n.PP\n{}\n", roff(command.name),
                                roff(command.description), synopsis(command));
  out += options(command);
  if (!command.footer.empty()) out += ".PP\n.nf\n" + roff(command.footer) + "\n.fi\n";
  return out;
}

std::string term(const std::string& name, const std::string& text) {
  return fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(name), roff(text));
}

std::string operators_section() {
  std::string out =
      ".SH OPERATORS\nA spec is inline text such as \\fBmatmul:m=512,n=3072,k=768\\fR, a JSON "
      "object, a file of them, or \\fB\\-\\fR for standard input. \\fBtune\\-cli ops\\fR lists the "
      "keys.\n";
  for (const Operator& op : operators()) out += term(op.name, op.summary);
  return out;
}

std::string exit_section() {
  std::string out = ".SH EXIT STATUS\n";
  out += term("0", "done") + term("1", "internal fault") + term("2", "bad usage or spec");
  out += term("3", "no candidate was valid") + term("4", "device or toolchain missing");
  out += term("5", "database locked or damaged");
  out += term("6", "the budget ended before a valid candidate");
  out += term("7", "the database lacks a kernel that was required");
  return out + term("130", "interrupted, state saved");
}

}  // namespace

std::string man_page(const CommandInfo& program) {
  std::string out = fmt::format(
      ".\\\" Made by: tune-cli man\n.TH TUNE\\-CLI 1 \"\" \"Tilewright {}\" \"User Commands\"\n.SH "
      "NAME\ntune\\-cli \\- search, check and store the fastest kernels for this machine\n.SH "
      "SYNOPSIS\n\\fBtune\\-cli\\fR \\fIcommand\\fR [\\fIoptions\\fR] [\\fIarguments\\fR]\n.SH "
      "DESCRIPTION\n{}\nData goes to standard output, progress and logs to standard error.\n.SH "
      "OPTIONS\n{}.SH COMMANDS\n",
      roff(TILEWRIGHT_VERSION), roff(program.description), options(program));
  for (const CommandInfo* c : all_commands(program)) {
    if (!c->name.empty()) out += command_section(*c);
  }
  out += operators_section() + ".SH ENVIRONMENT\n";
  for (const KnobInfo& k : knobs()) out += term(std::string(k.name), std::string(k.description));
  return out + exit_section();
}

}  // namespace tilewright::cli
