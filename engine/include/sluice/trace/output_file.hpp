#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace sluice::trace {

/// Makes sure, before a run starts, that `write_file_atomically` can later write the path. Leaves
/// nothing behind and does not touch a file that is already there.
/// @param field the option that gave the path
/// @throws ConfigError for `field`: the folder is missing or cannot be written, or the path is a folder
void check_writable(const std::string& field, const std::filesystem::path& path);

/// Replaces the file in one step: readers see the old contents or the new ones, and a failure leaves
/// the old file as it was. What is not a regular file (a pipe, a device) is written in place.
/// @throws Error naming the path and the cause
void write_file_atomically(const std::filesystem::path& path, std::string_view contents);

}  // namespace sluice::trace
