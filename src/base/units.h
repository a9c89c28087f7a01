// Numbers with units for people. Inside the program a quantity is a double whose name carries its
// unit (`time_us`, `bytes`, `bandwidth_gb_s`); decimal prefixes throughout (1 GB = 1e9 B).
//
//   format_bytes(679.5e6)   -> "679.5 MB"
//   format_time_us(31913)   -> "31.91 ms"
//   format_rate(2.0e14, "FLOP/s") -> "200.0 TFLOP/s"
#pragma once

#include <string>
#include <string_view>

namespace nibble {

inline constexpr double kKilo = 1e3;
inline constexpr double kMega = 1e6;
inline constexpr double kGiga = 1e9;
inline constexpr double kTera = 1e12;

// Four significant digits without exponent: 0.2177, 54.86, 679.5, 1158, 12345.
std::string format_number(double value, int significant = 4);
std::string format_bytes(double bytes);
std::string format_time_us(double microseconds);
std::string format_count(double count);                          // 743.9e9 -> "743.9 B", 1024 -> "1,024"
std::string format_rate(double per_second, std::string_view unit);  // with k, M, G, T, P
std::string format_percent(double ratio);                        // 0.0513 -> "5.13 %"
// A value with its unit, prefixes chosen for B, FLOP, s, us, ratio; "x" and "%" handled.
std::string format_quantity(double value, std::string_view unit);

}  // namespace nibble
