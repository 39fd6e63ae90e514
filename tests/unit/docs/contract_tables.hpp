// SPDX-License-Identifier: Apache-2.0
// The contract's layouts and numbers as read from the headers by the compiler, in the form in which docs/protocol.md
// prints them. A row is what the reference page must say, to the letter.
#pragma once

#include <string>
#include <vector>

namespace docs {

struct Table {
  std::string name;               // "struct ControlBlockHeader (64 bytes)", "enum Outcome"
  std::vector<std::string> rows;  // "| 0 | 4 | `magic` |"
};

std::vector<Table> contract_tables();

}  // namespace docs
