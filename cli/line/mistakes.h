// The answer to a command line that does not parse: the word, the place, the next step.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace tilewright::cli {

// "tune: unknown option '--trails'; did you mean '--trials'? 'tune-cli help tune' lists its options".
// Requires an error that `app` has just thrown while it parsed.
std::string explain(const CLI::App& app, const CLI::ParseError& error);

// "; did you mean 'tune'?" for a word that is nearly one of them, or that other programs use in its
// place, or nothing.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known);

// Of the commands right below, and of the app's own options ("trials", "o"), those that are hidden
// left out. Of the program itself: the options of all commands.
std::vector<std::string> command_names(const CLI::App& app);
std::vector<std::string> option_names(const CLI::App& app);

}  // namespace tilewright::cli
