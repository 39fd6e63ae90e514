// SPDX-License-Identifier: Apache-2.0
// The catalogue of bad bundles: one row for each refusal of the compiler. Each makes a bundle that compiles into one
// that does not, and says what the message must contain.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/bundle_builder.hpp"

namespace refusals {

inline constexpr const char* kAgain = "compile the operation again with a torch-spyre that this compiler knows";
inline constexpr const char* kStatic = "leave out mark_dynamic, or pass dynamic=False";
inline constexpr const char* kReport = "report it with the bundle";

struct Row {
  std::string name;
  std::function<void()> compile;  // the bad bundle; returns when it is accepted
  std::string place;              // the message begins with it and a colon: "bundle.mlir:14"
  std::string what;               // a part of the message
  std::string next = kAgain;      // a part of the next step
};

// The message and "(next: …)"; "accepted".
std::string said(const Row& row);
// Each is refused with the place, the words and the next step of its row.
void expect_refused(const std::vector<Row>& rows);

std::vector<Row> text_rows();
std::vector<Row> file_rows();
std::vector<Row> sdsc_rows();
std::vector<Row> lowering_rows();
std::vector<Row> window_rows();
std::vector<Row> program_rows();
std::vector<Row> command_rows();

// ---- bundles and changes of them -----------------------------------------------------------------------------------

std::string replaced(std::string text, const std::string& old, const std::string& replacement);
// Members by JSON pointer below the operation's body, or with a '/' at the begin below the file's only member.
using Edits = std::vector<std::pair<std::string, nlohmann::json>>;
void edit(nlohmann::json& file, const Edits& edits);
void compile_bundle(const test::BundleBuilder& builder, const std::vector<std::uint64_t>& lengths = {});
// With another text of bundle.mlir.
void compile_bundle(const test::BundleBuilder& builder, const std::string& text);

inline test::BundleTensor tensor(const std::string& base) {
  return {.order = {"mb", "out"}, .stick = "out", .base = base};
}
inline test::BundleTensor scratchpad(std::int64_t at) { return {.order = {"mb", "out"}, .stick = "out", .offset = at}; }

}  // namespace refusals
