#![no_std]
//! (to be written)
