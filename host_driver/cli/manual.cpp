// SPDX-License-Identifier: Apache-2.0
#include "host_driver/cli/manual.hpp"

#include <fmt/format.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Option.hpp>
#include <algorithm>
#include <ostream>
#include <sstream>

#include "host_driver/base/error.hpp"
#include "host_driver/base/output_file.hpp"
#include "host_driver/cli/suggestions.hpp"

namespace cli {

namespace {

// A line of text: no character of it is a request or an escape.
std::string escaped(std::string_view text) {
  std::string out;
  bool begins = true;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    begins = c == '\n';
  }
  return out;
}

std::string path_of(const CLI::App& command, char separator) {
  const CLI::App* around = command.get_parent();
  if (around == nullptr) return "spyre";
  return path_of(*around, separator) + separator + command.get_name();
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  std::vector<const CLI::Option*> all;
  for (const CLI::Option* option : app.get_options()) all.push_back(option);
  for (const CLI::App* group : app.get_subcommands(nullptr)) {
    if (!group->get_name().empty()) continue;
    const auto inner = options_of(*group);
    all.insert(all.end(), inner.begin(), inner.end());
  }
  return all;
}

std::string describe_option(const CLI::Option& option) {
  std::string name = option.get_positional() ? upper(option.get_name(true)) : option.get_name(false, true);
  std::string text = ".TP\n.B " + escaped(name);
  if (!option.get_positional() && option.get_items_expected_max() > 0) text += " \\fIVALUE\\fR";
  text += "\n" + escaped(option.get_description());
  if (!option.get_default_str().empty()) text += " (default: " + escaped(option.get_default_str()) + ")";
  return text + "\n";
}

std::string synopsis(const CLI::App& command) {
  std::string text = ".B " + escaped(path_of(command, ' '));
  const auto options = options_of(command);
  if (std::ranges::any_of(options, [](const CLI::Option* o) { return !o->get_positional(); })) text += " [OPTIONS]";
  if (!command_names(command).empty()) text += " COMMAND ...";
  for (const CLI::Option* option : options) {
    if (option->get_positional()) text += " " + escaped(upper(option->get_name(true)));
  }
  return text + "\n";
}

void write_page(const CLI::App& command, const std::filesystem::path& folder, std::span<const std::string> skip) {
  const std::string name = path_of(command, '-');
  if (std::ranges::find(skip, name) == skip.end()) {
    const auto path = folder / (name + ".1");
    svp::value_or_throw(svp::write_output_file(path, [&](std::ostream& out) { out << manual_page(command); }));
  }
  for (const std::string& child : command_names(command)) {
    const std::string words[] = {child};
    write_page(command_named(command, words), folder, skip);
  }
}

}  // namespace

std::string manual_page(const CLI::App& command) {
  const std::string name = path_of(command, '-');
  std::string page =
      fmt::format(".TH {} 1 \"\" \"spyre-vp\" \"spyre-vp\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}",
                  escaped(upper(name)), escaped(name), escaped(command.get_description()), synopsis(command));
  const auto children = command_names(command);
  if (!children.empty()) page += ".SH COMMANDS\n";
  for (const std::string& child : children) {
    const std::string words[] = {child};
    page += ".TP\n.B " + escaped(child) + "\n" + escaped(command_named(command, words).get_description()) + "\n";
  }
  const auto options = options_of(command);
  if (!options.empty()) page += ".SH OPTIONS\n";
  for (const CLI::Option* option : options) page += describe_option(*option);
  if (!command.get_footer().empty()) {
    page += ".SH EXAMPLES AND NOTES\n.nf\n" + escaped(command.get_footer()) + "\n.fi\n";
  }
  return page +
         ".SH EXIT STATUS\n0: done. 1: it ran, and something was wrong. 2: it could not run. 4: a fault did not "
         "fire. 130: interrupted.\n";
}

void write_manual(const CLI::App& program, const std::filesystem::path& folder, std::span<const std::string> skip) {
  write_page(program, folder, skip);
}

std::vector<std::string> complete(const CLI::App& program, std::span<const std::string> words,
                                  std::span<const std::string> cards) {
  if (words.empty()) return command_names(program);
  const std::string& last = words.back();
  const CLI::App& command = command_named(program, words.first(words.size() - 1));
  std::vector<std::string> known;
  if (last.starts_with('-')) {
    known = option_names(command);
  } else {
    known = command_names(command);
    const auto takes_card = [](const CLI::Option* option) {
      return option->get_positional() && option->get_name(true).starts_with("card");
    };
    if (std::ranges::any_of(options_of(command), takes_card)) known.insert(known.end(), cards.begin(), cards.end());
  }
  std::erase_if(known, [&](const std::string& word) { return !word.starts_with(last); });
  return known;
}

}  // namespace cli
