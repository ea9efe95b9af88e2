// Runs dynalite on 127.0.0.1, and counts what is asked of items: GET /questions says how often. Probes are no questions.
//
//   node dynalite.js FOLDER_OF_DYNALITE PORT
'use strict'

const dynalite = require(process.argv[2])

const server = dynalite({ createTableMs: 0, deleteTableMs: 0, updateTableMs: 0 })
const [answer] = server.listeners('request')
let questions = 0

server.removeAllListeners('request')
server.on('request', (request, response) => {
  if (request.url === '/questions') return response.end(String(questions))
  if (/\.(GetItem|PutItem|UpdateItem)$/.test(request.headers['x-amz-target'])) {
    const body = []
    request.on('data', (chunk) => body.push(chunk))
    request.on('end', () => { if (!Buffer.concat(body).includes(':probe"')) questions += 1 })
  }
  return answer(request, response)
})
server.listen(Number(process.argv[3]), '127.0.0.1')
