//! The bytes of a connection as messages of a WebSocket (RFC 6455), the server's end, without a dependency.
//!
//! What the client's binary messages and fragments carry is one stream of bytes, cut anywhere; what goes
//! out is cut into messages of at most `MESSAGE` bytes. Pings are not answered: no client here sends any.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsRawFd, RawFd};

/// What a connection is served over: not blocking.
pub trait Wire: Read + Write {
    fn fd(&self) -> RawFd;
    /// Something is left to write by `flush`.
    fn pending(&self) -> bool;
    /// Says that nothing more will be written.
    fn finish(&mut self);
}

impl Wire for TcpStream {
    fn fd(&self) -> RawFd {
        self.as_raw_fd()
    }
    fn pending(&self) -> bool {
        false
    }
    fn finish(&mut self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

const MESSAGE: usize = 64 * 1024;
const RAW: usize = 256 * 1024;
const PROTOCOLS: [&str; 2] = ["amqp", "AMQPWSB10"]; // the latter is what azure-servicebus says
const CLOSE: [u8; 4] = [0x88, 2, 0x03, 0xe8]; // of code 1000

pub struct WebSocket {
    sock: TcpStream,
    raw: Vec<u8>, // read and not yet looked at: raw[at..have]
    at: usize,
    have: usize,
    upgraded: bool,
    opcode: u8,
    left: usize, // of the payload of the frame that is being read
    mask: [u8; 4], // rotated to the next byte
    out: Vec<u8>,
    out_at: usize,
    closing: bool, // our close frame is sent
    closed: bool, // theirs has come
}

impl WebSocket {
    pub fn new(sock: TcpStream) -> Self {
        WebSocket {
            sock, raw: vec![0; RAW], at: 0, have: 0, upgraded: false, opcode: 0, left: 0, mask: [0; 4],
            out: Vec::with_capacity(MESSAGE), out_at: 0, closing: false, closed: false,
        }
    }

    /// Answers the request once it is whole.
    fn upgrade(&mut self) -> Result<()> {
        let Some(end) = self.raw[..self.have].windows(4).position(|w| w == b"\r\n\r\n") else { return Ok(()) };
        let request = String::from_utf8_lossy(&self.raw[..end]).into_owned();
        let header = |name: &str| {
            let found = request.lines().filter_map(|line| line.split_once(':'));
            let value = found.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_string());
            value.last().ok_or(Error::new(ErrorKind::InvalidData, format!("a request without {name}")))
        };
        let protocol = header("Sec-WebSocket-Protocol")?;
        if !PROTOCOLS.contains(&protocol.as_str()) {
            return Err(Error::new(ErrorKind::InvalidData, format!("the subprotocol {protocol}")));
        }
        let proof = base64(&sha1((header("Sec-WebSocket-Key")? + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").as_bytes()));
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Protocol: {protocol}\r\nSec-WebSocket-Accept: {proof}\r\n\r\n"
        );
        self.out.extend_from_slice(answer.as_bytes());
        self.at = end + 4;
        self.upgraded = true;
        self.flush()
    }

    /// Reads the header of a frame; false where it is not whole.
    fn header(&mut self) -> Result<bool> {
        let b = &self.raw[self.at..self.have];
        if b.len() < 2 {
            return Ok(false);
        }
        let wide = match b[1] & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        if b.len() < 6 + wide {
            return Ok(false);
        }
        let bad = |what: &str| Err(Error::new(ErrorKind::InvalidData, what));
        if b[1] & 0x80 == 0 {
            return bad("a frame that is not masked");
        }
        if b[0] & 0x70 != 0 || ![0, 2, 8, 9, 10].contains(&(b[0] & 0x0f)) {
            return bad("a frame that is neither binary nor control");
        }
        let size = |bytes: &[u8]| bytes.iter().fold(0usize, |n, &byte| n << 8 | byte as usize);
        self.left = if wide == 0 { (b[1] & 0x7f) as usize } else { size(&b[2..2 + wide]) };
        self.opcode = b[0] & 0x0f;
        self.mask.copy_from_slice(&b[2 + wide..6 + wide]);
        self.at += 6 + wide;
        if self.opcode == 8 {
            self.closed = true;
            self.close();
        }
        Ok(true)
    }

    fn close(&mut self) {
        if !self.closing {
            self.closing = true;
            self.out.extend_from_slice(&CLOSE);
            let _ = self.flush();
        }
    }

    /// Hands on what is here, unmasked; returns how much.
    fn decode(&mut self, to: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while !self.closed && done < to.len() {
            if self.left == 0 && !self.header()? {
                break;
            }
            let n = self.left.min(self.have - self.at).min(to.len() - done);
            if self.opcode < 8 {
                unmask(&self.raw[self.at..self.at + n], self.mask, &mut to[done..done + n]);
                done += n;
            }
            self.mask.rotate_left(n % 4);
            self.at += n;
            self.left -= n;
            if self.left > 0 {
                break;
            }
        }
        Ok(done)
    }
}

impl Read for WebSocket {
    fn read(&mut self, to: &mut [u8]) -> Result<usize> {
        loop {
            if self.upgraded {
                let done = self.decode(to)?;
                if done > 0 || self.closed {
                    return Ok(done);
                }
            }
            self.raw.copy_within(self.at..self.have, 0);
            self.have -= self.at;
            self.at = 0;
            let got = self.sock.read(&mut self.raw[self.have..])?;
            if got == 0 {
                return Ok(0);
            }
            self.have += got;
            if !self.upgraded {
                self.upgrade()?;
            }
        }
    }
}

impl Write for WebSocket {
    fn write(&mut self, data: &[u8]) -> Result<usize> {
        self.flush()?;
        let data = &data[..data.len().min(MESSAGE)];
        self.out.push(0x82);
        match data.len() {
            n @ 0..=125 => self.out.push(n as u8),
            n @ 126..=0xffff => {
                self.out.push(126);
                self.out.extend_from_slice(&(n as u16).to_be_bytes());
            }
            n => {
                self.out.push(127);
                self.out.extend_from_slice(&(n as u64).to_be_bytes());
            }
        }
        self.out.extend_from_slice(data);
        match self.flush() {
            Err(e) if e.kind() != ErrorKind::WouldBlock => Err(e),
            _ => Ok(data.len()),
        }
    }

    fn flush(&mut self) -> Result<()> {
        while self.out_at < self.out.len() {
            self.out_at += self.sock.write(&self.out[self.out_at..])?;
        }
        self.out.clear();
        self.out_at = 0;
        Ok(())
    }
}

impl Wire for WebSocket {
    fn fd(&self) -> RawFd {
        self.sock.as_raw_fd()
    }
    fn pending(&self) -> bool {
        self.out_at < self.out.len()
    }
    fn finish(&mut self) {
        self.close();
    }
}

fn unmask(from: &[u8], mask: [u8; 4], to: &mut [u8]) {
    let wide = u64::from_ne_bytes([mask, mask].concat().try_into().unwrap());
    let (mut ins, mut outs) = (from.chunks_exact(8), to.chunks_exact_mut(8));
    for (i, o) in (&mut ins).zip(&mut outs) {
        o.copy_from_slice(&(u64::from_ne_bytes(i.try_into().unwrap()) ^ wide).to_ne_bytes());
    }
    for (n, (i, o)) in ins.remainder().iter().zip(outs.into_remainder()).enumerate() {
        *o = i ^ mask[n % 4];
    }
}

fn sha1(data: &[u8]) -> [u8; 20] {
    let mut state = [0x67452301u32, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0];
    let mut all = data.to_vec();
    all.push(0x80);
    while all.len() % 64 != 56 {
        all.push(0);
    }
    all.extend_from_slice(&(data.len() as u64 * 8).to_be_bytes());
    for block in all.chunks_exact(64) {
        let mut w = [0u32; 80];
        for i in 0..80 {
            w[i] = if i < 16 {
                u32::from_be_bytes(block[4 * i..4 * i + 4].try_into().unwrap())
            } else {
                (w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16]).rotate_left(1)
            };
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (i, word) in w.iter().enumerate() {
            let (f, k) = match i / 20 {
                0 => (b & c | !b & d, 0x5a827999),
                1 => (b ^ c ^ d, 0x6ed9eba1),
                2 => (b & c | b & d | c & d, 0x8f1bbcdc),
                _ => (b ^ c ^ d, 0xca62c1d6u32),
            };
            let next = a.rotate_left(5).wrapping_add(f).wrapping_add(e).wrapping_add(k).wrapping_add(*word);
            (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
        }
        for (s, v) in state.iter_mut().zip([a, b, c, d, e]) {
            *s = s.wrapping_add(v);
        }
    }
    let mut digest = [0; 20];
    digest.chunks_exact_mut(4).zip(state).for_each(|(to, word)| to.copy_from_slice(&word.to_be_bytes()));
    digest
}

fn base64(data: &[u8]) -> String {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in data.chunks(3) {
        let bits = three.iter().fold(0u32, |n, &byte| n << 8 | byte as u32) << (8 * (3 - three.len()));
        for i in 0..4 {
            let digit = digits[(bits >> (18 - 6 * i)) as usize & 63] as char;
            text.push(if i > three.len() { '=' } else { digit });
        }
    }
    text
}
