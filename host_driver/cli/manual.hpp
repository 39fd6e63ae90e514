// SPDX-License-Identifier: Apache-2.0
// Manual pages and completion, made from what the command line says of itself in --help.
#pragma once

#include <CLI/App.hpp>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace cli {

// One page in man(7) format, section 1: "spyre" or "spyre-fault-run".
std::string manual_page(const CLI::App& command);
// A page per command that is not hidden, and one for the program: spyre.1, spyre-boot.1, spyre-fault-run.1 ... Throws
// svp::Error when one cannot be written. Commands in `skip` ("spyre-soak") are left out.
void write_manual(const CLI::App& program, const std::filesystem::path& folder, std::span<const std::string> skip = {});

// Candidates for the last of `words` (what stands behind the program's name, the word under the cursor last): commands,
// options, and, where a command takes a card, `cards`.
std::vector<std::string> complete(const CLI::App& program, std::span<const std::string> words,
                                  std::span<const std::string> cards);

}  // namespace cli
