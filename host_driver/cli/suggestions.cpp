// SPDX-License-Identifier: Apache-2.0
#include "host_driver/cli/suggestions.hpp"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Option.hpp>
#include <algorithm>

namespace cli {

namespace {

// Optimal string alignment: inserted, removed, changed and exchanged characters.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t other = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + other});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

// An option group is an application without a name: its options are those of the command around it.
void collect_options(const CLI::App& app, std::vector<const CLI::Option*>& found) {
  for (const CLI::Option* option : app.get_options()) found.push_back(option);
  for (const CLI::App* group : app.get_subcommands(nullptr)) {
    if (group->get_name().empty()) collect_options(*group, found);
  }
}

const CLI::Option* option_called(const CLI::App& app, std::string_view word) {
  const std::string name(word.substr(0, word.find('=')));
  for (const CLI::App* at = &app; at != nullptr; at = at->get_parent()) {
    std::vector<const CLI::Option*> options;
    collect_options(*at, options);
    const auto found = std::ranges::find_if(options, [&](const CLI::Option* o) { return o->check_name(name); });
    if (found != options.end()) return *found;
  }
  return nullptr;
}

bool takes_positionals(const CLI::App& app) {
  std::vector<const CLI::Option*> options;
  collect_options(app, options);
  return std::ranges::any_of(options, [](const CLI::Option* option) { return option->get_positional(); });
}

const CLI::App* child_called(const CLI::App& app, std::string_view word) {
  for (const CLI::App* child : app.get_subcommands(nullptr)) {
    if (!child->get_name().empty() && child->get_name() == word) return child;
  }
  return nullptr;
}

std::string complaint(const char* what, std::string_view word, std::span<const std::string> known) {
  std::string text = "there is no " + std::string(what) + " '" + std::string(word) + "'";
  if (const auto meant = nearest(word, known)) text += "; did you mean '" + *meant + "'?";
  return text;
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known) {
  std::optional<std::string> best;
  std::size_t fewest = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const std::size_t changes = distance(word, candidate);
    if (changes >= fewest) continue;
    fewest = changes;
    best = candidate;
  }
  return best;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* child : app.get_subcommands(nullptr)) {
    const bool hidden = child->get_group().empty();
    if (!child->get_name().empty() && !hidden) names.push_back(child->get_name());
  }
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* at = &app; at != nullptr; at = at->get_parent()) {
    std::vector<const CLI::Option*> options;
    collect_options(*at, options);
    for (const CLI::Option* option : options) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

const CLI::App& command_named(const CLI::App& app, std::span<const std::string> words) {
  const CLI::App* at = &app;
  for (const std::string& word : words) {
    if (const CLI::App* child = child_called(*at, word)) at = child;
  }
  return *at;
}

std::string unknown_word(const CLI::App& app, std::span<const std::string> words) {
  const CLI::App* at = &app;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") return {};
    if (word.size() > 1 && word.front() == '-') {
      const CLI::Option* option = option_called(*at, word);
      if (option == nullptr) return complaint("option", word.substr(0, word.find('=')), option_names(*at));
      if (option->get_items_expected_max() > 0 && !word.contains('=')) ++i;
    } else if (const CLI::App* child = child_called(*at, word)) {
      at = child;
    } else if (!takes_positionals(*at)) {
      const auto known = command_names(*at);
      return known.empty() ? "'" + word + "' was not expected" : complaint("command", word, known);
    }
  }
  return {};
}

}  // namespace cli
