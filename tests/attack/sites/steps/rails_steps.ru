# A site on Rails with two steps: a password that begins a session, and a code that the session says whose it is. It
# writes down every code that it compares. What is right begins with `right-`.
require 'json'
require 'logger'
require 'rails'
require 'action_controller/railtie'

ATTEMPTS = File.open(ENV.fetch('ATTEMPTS'), 'a').tap { |file| file.sync = true }

class Site < Rails::Application
  config.eager_load = true
  config.consider_all_requests_local = false
  config.secret_key_base = 'a throw-away site' * 4
  config.logger = Logger.new(nil)
  config.hosts.clear
  config.action_controller.allow_forgery_protection = false
  config.session_store :cookie_store, key: '_site_session'
  routes.append do
    post '/login', to: 'steps#password'
    match '/code', to: 'steps#code', via: :all
    get '/home', to: 'steps#home'
  end
end

class StepsController < ActionController::Base
  def home = render(plain: 'home')

  def password
    return render(plain: 'Login failed') unless params[:pw].to_s.start_with?('right-')
    session[:user] = params[:login]
    redirect_to '/code'
  end

  def code
    return render(plain: 'form') unless session[:user] && params[:code]
    code = params[:code].to_s.scrub
    ATTEMPTS.write(JSON.generate({ user: session[:user], password: code }) + "\n")
    code.start_with?('right-') ? redirect_to('/home') : render(plain: 'Wrong code')
  end
end

Site.initialize!
run Site
