// SPDX-License-Identifier: Apache-2.0
// How the command line writes: colours and characters that the reader can show, JSON with a version, errors in either
// form.
#pragma once

#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "host_driver/base/error.hpp"

namespace cli {

// Version of every JSON object that a command prints ("schema_version"). It grows when a key changes its meaning or
// goes; new keys do not change it.
inline constexpr int kSchemaVersion = 1;

enum class ColorMode { Auto, Always, Never };

// What the environment says of the reader.
struct OutputEnvironment {
  bool terminal = false;
  const char* no_color = nullptr;  // NO_COLOR: set and not empty means no colours (no-color.org)
  const char* term = nullptr;      // TERM: "dumb" means no colours
  const char* locale = nullptr;    // the first of LC_ALL, LC_CTYPE, LANG that is set and not empty
};

struct Style {
  bool color = false;
  bool unicode = false;  // the locale's character set is UTF-8; else plain ASCII
};
Style style_for(ColorMode mode, const OutputEnvironment& environment);

// Of this process's stdout, by --color and the environment. set_color_mode() comes first, if at all; one thread.
void set_color_mode(ColorMode mode);
Style stdout_style();

// `object` with "schema_version" in front, on stdout.
void print_json(const nlohmann::ordered_json& object);

// {"error": {"layer", "source", "outcome", "message", "next_step", "recoverable"}}.
nlohmann::ordered_json error_json(const svp::ErrorInfo& error);
// As JSON on stdout, or as a line on stderr.
void print_error(const std::exception& error, bool json);

// First of all in main(): a standard stream that is closed becomes one that refuses what is written to it, so that no
// file of ours gets its number; and a write beyond RLIMIT_FSIZE is an error of the call instead of the end of the
// program. What the program starts finds the default for that signal.
void prepare_standard_streams();
// Why what was printed so far has not reached stdout, e.g. "No space left on device"; empty when all of it has.
std::string output_failure();
// Writes what was printed; for commands that go on printing. Throws svp::Error when it could not be written.
void flush_output();
// Nobody has to read what was printed: what could not be written is forgotten.
void forget_output_failure();
// Last of all in main(): `code`, or when stdout has not taken everything, a line on stderr and `failed` instead of kOk.
int with_output_written(int code, int failed);

// Whether the words of a command line ask for JSON: "--json" before any "--".
bool asks_for_json(int argc, const char* const* argv);

}  // namespace cli
