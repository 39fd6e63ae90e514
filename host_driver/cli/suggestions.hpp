// SPDX-License-Identifier: Apache-2.0
// What somebody may have meant by a word that no command knows.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cli {

// The one of `known` with the fewest changes (a character more, less or another, or two exchanged) from `word`; at most
// one change per three characters, and the first of equals. Nothing: none is near.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known);

// What is said of the first word of a command line that `app` does not know: "there is no command 'devics'; did you
// mean 'devices'?". Empty: each is known, something else is wrong.
std::string unknown_word(const CLI::App& app, std::span<const std::string> words);

// The command that the words name, as deep as they go. Options in front of it are skipped.
const CLI::App& command_named(const CLI::App& app, std::span<const std::string> words);

std::vector<std::string> command_names(const CLI::App& app);
// "--json", of the command and of those around it; option groups included.
std::vector<std::string> option_names(const CLI::App& app);

}  // namespace cli
